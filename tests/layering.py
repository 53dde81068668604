"""Checks imports: reads the sources by ast, and reports each import that goes against the layers of ARCHITECTURE.md."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from tests.components import COMPONENTS, Component

#: Lines above which a file needs a reason to be one file; the reasons are in LONG_FILES.
LONG_FILE = 400
#: The most modules in one folder, so that a reader finds the right one among their names.
LARGE_FOLDER = 17
LONG_FILES = {
    "logd.client.producer.producer": "the public class: methods that are mostly documentation; its parts are elsewhere",
    "logd.coord.server.connection": "one connection's state, from the handshake to the end",
}


#: The package itself: what it re-exports is for users; inside, a name is imported from where it lives.
FACE = "logd"
FACE_NAMES = ("__version__",)


@frozen
class Module:
    """One source file: its dotted name, text and whether it is a package's ``__init__.py``."""

    name: str
    text: str
    is_package: bool = False


@frozen
class Import:
    """One imported module (or a name that may be one); ``at_top``: when the module is loaded, not in a function."""

    target: str
    line: int
    at_top: bool
    #: Under ``if TYPE_CHECKING``: known by name, never loaded.
    for_types: bool = False


def read_tree(root: Path) -> list[Module]:
    """Return the project's modules under ``root``; the folder ``spark`` is what is imported as ``logd.spark``."""
    modules = []
    for folder, prefix in (("logd", ""), ("spark", "logd."), ("twisted", "")):
        for where, subfolders, names in os.walk(root / folder):  # does not follow the symlink logd/spark
            subfolders[:] = sorted(set(subfolders) - {"__pycache__"})
            for name in sorted(names):
                if name.endswith(".py"):
                    parts = (Path(where) / name).relative_to(root).with_suffix("").parts
                    is_package = parts[-1] == "__init__"
                    dotted = prefix + ".".join(parts[:-1] if is_package else parts)
                    modules.append(Module(dotted, (Path(where) / name).read_text(encoding="utf-8"), is_package))
    return modules


def problems(modules: Iterable[Module], components: Iterable[Component] = COMPONENTS) -> list[str]:
    """Return a sentence for each breach of a rule."""
    known = {module.name: module for module in modules}
    imports = {module.name: list(imports_of(module, known)) for module in known.values()}
    found = []
    for name, module in known.items():
        if module.text.count("\n") > LONG_FILE and name not in LONG_FILES:
            found.append(f"{name} has more than {LONG_FILE} lines: divide it, or say in LONG_FILES why it is one thing")
        if name == FACE:
            continue
        component = _component_of(name, components)
        if component is None:
            found.append(f"{name} belongs to no component")
            continue
        for each in imports[name]:
            found.extend(
                f"{name}:{each.line} {problem}" for problem in _import_problems(module, component, each, components)
            )
        found.extend(f"{name}:{line} {problem}" for line, problem in _call_problems(module, component))
    # A type's name may go round in a circle: a session knows its broker, which makes sessions.
    loaded = {name: {each.target for each in imports[name] if not each.for_types} for name in known}
    inside = {name: targets & set(known) for name, targets in loaded.items()}
    found.extend(_circles(inside, components))
    found.extend(_folder_circles(inside))
    found.extend(_kazoo_problems(imports))
    return found


def large_folders(root: Path) -> list[str]:
    """Return the folders of the project and its tests that hold more modules than a reader can choose from."""
    folders = [
        path for name in ("logd", "spark", "tests") for path in sorted((root / name).rglob("*")) if path.is_dir()
    ]
    return [str(path.relative_to(root)) for path in folders if len(list(path.glob("*.py"))) > LARGE_FOLDER]


def imports_of(module: Module, known: Mapping[str, object]) -> Iterator[Import]:
    """Every import in the module, also those inside functions; ``from a import b`` means a.b where that is a module."""
    tree = ast.parse(module.text)
    inner = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(outer)
    }
    typed = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and isinstance(outer.test, ast.Name) and outer.test.id == "TYPE_CHECKING"
        for body in outer.body
        for node in ast.walk(body)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        when = node.lineno, id(node) not in inner, id(node) in typed
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, *when)
        else:
            base = _absolute(module, node)
            for alias in node.names:
                joined = f"{base}.{alias.name}"
                inside = base.split(".")[0] in ("logd", "spark") and joined not in known and base != FACE
                yield Import(base if inside else joined, *when)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
    return ".".join([*parts, node.module] if node.module else parts)


def _component_of(name: str, components: Iterable[Component]) -> Component | None:
    """Return the component with the longest prefix that fits: one component can lie inside another."""
    found = [
        (len(prefix), component) for component in components for prefix in component.prefixes if _under(name, (prefix,))
    ]
    return max(found, key=lambda each: each[0])[1] if found else None


def _under(name: str, prefixes: Iterable[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _import_problems(
    module: Module, component: Component, each: Import, components: Iterable[Component]
) -> Iterator[str]:
    target = each.target
    if target in (FACE, *(f"{FACE}.{name}" for name in FACE_NAMES)):
        if target == FACE:
            yield "imports the package itself: name the module"
    elif _under(target, ("logd", "spark")):
        other = _component_of(target, components)
        if other is None:
            yield f"imports {target}, which belongs to no component: import a name from where it lives"
        elif other is not component and other.layer >= component.layer and not _under(target, component.beside):
            places = [f"component {one.name}, layer {one.layer}" for one in (component, other)]
            yield f"({places[0]}) imports {target} of {places[1]}"
    elif module.name not in component.exempt:
        if _under(target, component.forbidden) and not _under(target, ("os.path", "io.BytesIO")):
            yield f"(component {component.name}) imports {target}"
        elif component.allowed is not None and not _under(target, component.allowed) and not _is_standard(target):
            allowed = " or ".join(component.allowed)
            yield f"(component {component.name}) imports {target}, which is neither standard nor {allowed}"
    if each.at_top and _under(target, ("twisted.internet.reactor",)):
        yield "imports the reactor at its top: take it as an argument"


def _is_standard(target: str) -> bool:
    return target.split(".")[0] in sys.stdlib_module_names


def _call_problems(module: Module, component: Component) -> Iterator[tuple[int, str]]:
    if module.name in component.exempt:
        return
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in component.forbidden_calls:
                yield node.lineno, f"(component {component.name}) calls {node.func.id}()"
            elif node.func.id in ("import_module", "__import__"):
                yield node.lineno, f"calls {node.func.id}(), which hides an import"


def _kazoo_problems(imports: Mapping[str, list[Import]]) -> Iterator[str]:
    users = sorted(name for name, each in imports.items() if any(_under(i.target, ("kazoo",)) for i in each))
    for name in users:
        if not _under(name, ("logd.coord",)):
            yield f"{name} imports kazoo, which only a module of logd.coord may know"
    if len(users) > 1:
        yield f"more than one module imports kazoo: {', '.join(users)}"


def _folder_circles(graph: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the circles between the folders and modules of one folder: imports run downwards between them as well."""
    folders: dict[str, dict[str, set[str]]] = {}
    for name, targets in graph.items():
        for target in targets:
            ours, theirs = name.split("."), target.split(".")
            shared = 0
            while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
                shared += 1
            if shared and shared < min(len(ours), len(theirs)):
                children = folders.setdefault(".".join(ours[:shared]), {})
                children.setdefault(ours[shared], set()).add(theirs[shared])
    for folder, children in sorted(folders.items()):
        circle = _first_circle(children)
        if any(name.startswith(f"{folder}.{each}.") for each in circle for name in graph):  # else it is one of modules
            yield f"folders of {folder} in a circle: " + " -> ".join(circle)


def _first_circle(graph: Mapping[str, set[str]]) -> list[str]:
    finished: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in finished:
            for target in sorted(graph.get(name, ())):
                circle = walk(target, [*path, name])
                if circle:
                    return circle
            finished.add(name)
        return []

    for name in sorted(graph):
        circle = walk(name, [])
        if circle:
            return circle
    return []


def _circles(graph: Mapping[str, set[str]], components: Iterable[Component]) -> Iterator[str]:
    """Circles inside a component (between components the layers exclude them), each reported once."""
    finished: set[str] = set()

    def walk(name: str, path: list[str]) -> Iterator[str]:
        if name in path:
            yield "circle: " + " -> ".join([*path[path.index(name) :], name])
        elif name not in finished:
            for target in sorted(graph[name]):
                if _component_of(target, components) is _component_of(name, components):
                    yield from walk(target, [*path, name])
            finished.add(name)

    for name in sorted(graph):
        if name != FACE:
            yield from walk(name, [])
