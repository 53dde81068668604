"""Holds the project to the layers of ARCHITECTURE.md, and tests the checker that does so."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

from twisted.trial.unittest import SynchronousTestCase

from tests.class_attributes import LARGE_CLASSES, attribute_problems, large_classes
from tests.components import COMPONENTS, Component
from tests.layering import LONG_FILE, Module, large_folders, problems, read_tree

ROOT = Path(__file__).resolve().parent.parent


class LayeringTests(SynchronousTestCase):
    """The rules of `tests/layering.py` on the project as it is."""

    def test_no_file_of_the_project_breaks_a_rule(self) -> None:
        """The failure lists each import that goes against the layers."""
        found = problems(read_tree(ROOT))
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_the_walk_finds_modules_of_every_component(self) -> None:
        """Otherwise the checks would pass because they looked elsewhere."""
        names = {module.name for module in read_tree(ROOT)}
        for expected in ("logd", "logd.errors", "logd.config.log", "logd.spark", "twisted.plugins.logd_plugin"):
            self.assertIn(expected, names)

    def test_folders_have_few_enough_modules_to_choose_from(self) -> None:
        """The tests' folders are counted too."""
        self.assertEqual(large_folders(ROOT), [])

    def test_no_test_file_is_longer_than_the_limit(self) -> None:
        """The checker holds the package's files to it; the tests belong to no component."""
        tests = (ROOT / "tests").rglob("*.py")
        self.assertEqual([str(path) for path in tests if path.read_text().count("\n") > LONG_FILE], [])

    def test_classes_are_small(self) -> None:
        """No class has more attributes than one subject needs, but for those that have a reason."""
        found = attribute_problems(large_classes(read_tree(ROOT)), LARGE_CLASSES)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_class_names_are_unique_in_the_package(self) -> None:
        """A name alone then says which class is meant."""
        homes: defaultdict[str, list[str]] = defaultdict(list)
        for module in read_tree(ROOT):
            for node in ast.walk(ast.parse(module.text)):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(module.name)
        self.assertEqual({name: modules for name, modules in homes.items() if len(modules) > 1}, {})


class CheckerTests(SynchronousTestCase):
    """The checker on made-up trees."""

    def found(self, **sources: str) -> list[str]:
        """Return the problems of a tree: names have ``__`` for dots; a package's own text is under its name."""
        names = {name.replace("__", "."): text for name, text in sources.items()}
        return problems(
            Module(name, text, any(other.startswith(f"{name}.") for other in names)) for name, text in names.items()
        )

    def assert_one(self, found: list[str], *words: str) -> None:
        """Check that there is one problem, and that it names all the words."""
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_imports_of_lower_layers_are_allowed(self) -> None:
        """Other packages and the standard library are too, where no rule forbids them."""
        self.assertEqual(
            self.found(
                logd__errors="import attrs",
                logd__log__segment="from logd.errors import LogdError\nfrom logd.protocol.loops import check_set",
                logd__protocol__loops="import struct\nfrom zlib import crc32",
            ),
            [],
        )

    def test_an_import_of_a_higher_layer_is_found(self) -> None:
        """It may be absolute or relative, late in a function, or for types alone."""
        for text in (
            "import logd.log.store",
            "from logd.log.store import LogStore",
            "from logd.log import store",
            "from ..log import store",
            "from ..log.store import LogStore",
            "def late():\n    from logd.log import store",
            "if TYPE_CHECKING:\n    from logd.log import store",
        ):
            self.assert_one(
                self.found(logd__protocol__a=text, logd__log__store=""), "logd.protocol.a", "logd.log.store"
            )

    def test_a_relative_import_in_a_package_counts_from_it(self) -> None:
        """One dot in an ``__init__.py`` means the package itself, not its parent."""
        tree = {"logd__log": "from . import store\nfrom ..broker import service"}
        self.assert_one(self.found(**tree, logd__log__store="", logd__broker__service=""), "logd.broker.service")

    def test_components_of_one_layer_do_not_know_each_other(self) -> None:
        """The problem names the line of the import."""
        for one, other in (
            ("log", "coord"),
            ("broker", "client"),
            ("client", "broker"),
            ("bench", "tap"),
            ("web", "tap"),
        ):
            tree = {f"logd__{one}__a": f"import logd.{other}.b", f"logd__{other}__b": ""}
            self.assert_one(self.found(**tree), f"logd.{one}.a:1", f"logd.{other}.b")

    def test_the_assembly_may_mount_the_pages_beside_it(self) -> None:
        """One of the few exceptions: the options of twistd choose whether there are pages."""
        self.assertEqual(self.found(logd__tap="from logd.web.site import site", logd__web__site=""), [])

    def test_protocol_and_log_import_no_twisted_or_threads(self) -> None:
        """Time and file operations are forbidden too; `os.path`, which touches no file, is not."""
        for component in ("protocol", "log"):
            for text in ("import twisted.python", "from twisted import logger", "import threading", "import os"):
                self.assert_one(
                    self.found(**{f"logd__{component}__a": text}), f"component {component}", text.split()[1]
                )
            self.assert_one(self.found(**{f"logd__{component}__a": "from time import time"}), "time.time")
            self.assertEqual(self.found(**{f"logd__{component}__a": "from os.path import join"}), [])

    def test_the_room_of_file_operations_may_import_them(self) -> None:
        """It is the one place where the log touches the operating system."""
        self.assertEqual(self.found(logd__log__disk__local_files="import os\nopen('x')"), [])

    def test_a_call_of_open_is_found_in_protocol_and_log(self) -> None:
        """The method of the same name, of files that are handed in, is allowed."""
        self.assert_one(self.found(logd__log__store="open('x')"), "logd.log.store:1", "open()")
        self.assertEqual(self.found(logd__log__store="files.open('x')"), [])

    def test_an_import_by_name_is_found(self) -> None:
        """It would otherwise be a way round every rule."""
        self.assert_one(self.found(logd__net__a="\n__import__('logd.tap')"), "logd.net.a:2", "__import__")

    def test_the_lowest_layer_imports_attrs_and_zope_interface_only(self) -> None:
        """Every other package that has to be installed is a problem there."""
        self.assertEqual(self.found(logd__errors="from zope.interface import Interface\nimport attrs, tomllib"), [])
        self.assert_one(self.found(logd__errors="import click"), "click")

    def test_the_reactor_is_imported_in_functions_only(self) -> None:
        """The top of a module would install one before the program has chosen."""
        for text in (
            "from twisted.internet import reactor",
            "import twisted.internet.reactor",
            "try:\n    from twisted.internet import reactor, defer\nexcept ImportError:\n    pass",
            "class A:\n    from twisted.internet import reactor",
        ):
            self.assert_one(self.found(logd__cli__main=text), "logd.cli.main", "reactor")
        self.assertEqual(self.found(logd__cli__main="def run():\n    from twisted.internet import reactor"), [])

    def test_a_circle_inside_a_room_is_found_once(self) -> None:
        """It is shown, however long it is and wherever it begins."""
        tree = {
            "logd__log__a": "import logd.log.b",
            "logd__log__b": "from logd.log import c",
            "logd__log__c": "def late():\n    from logd.log.a import x",
            "logd__log__d": "import logd.log.a",
        }
        self.assert_one(self.found(**tree), "logd.log.a -> logd.log.b -> logd.log.c -> logd.log.a")

    def test_two_folders_may_not_import_each_other(self) -> None:
        """The rule holds even where no two of their modules do."""
        tree = {
            "logd__log__a__one": "import logd.log.b.one",
            "logd__log__a__two": "",
            "logd__log__b__one": "",
            "logd__log__b__two": "import logd.log.a.two",
        }
        self.assert_one(self.found(**tree), "folders of logd.log in a circle: a -> b -> a")

    def test_a_module_that_imports_its_own_package_makes_a_circle(self) -> None:
        """It does if the package imports the module."""
        tree = {"logd__config": "from logd.config.log import X", "logd__config__log": "from logd.config import Y"}
        self.assert_one(self.found(**tree), "logd.config -> logd.config.log -> logd.config")

    def test_two_ways_to_one_module_are_no_circle(self) -> None:
        """The usual shape of a diamond is allowed."""
        tree = {
            "logd__log__a": "import logd.log.b, logd.log.c",
            "logd__log__b": "import logd.log.d",
            "logd__log__c": "import logd.log.d",
            "logd__log__d": "",
        }
        self.assertEqual(self.found(**tree), [])

    def test_a_circle_of_types_alone_is_allowed(self) -> None:
        """An import in the else branch of ``if TYPE_CHECKING`` still counts."""
        tree = {"logd__log__a": "import logd.log.b", "logd__log__b": "if TYPE_CHECKING:\n    import logd.log.a"}
        self.assertEqual(self.found(**tree), [])
        tree["logd__log__b"] = "if TYPE_CHECKING:\n    pass\nelse:\n    import logd.log.a"
        self.assert_one(self.found(**tree), "circle")

    def test_one_module_of_the_coordination_room_may_know_kazoo(self) -> None:
        """A second one is found, and any outside that component."""
        self.assertEqual(self.found(logd__coord__a="from kazoo.client import KazooClient"), [])
        self.assert_one(self.found(logd__broker__a="import kazoo"), "logd.broker.a", "kazoo")
        self.assert_one(self.found(logd__coord__a="import kazoo", logd__coord__b="import kazoo"), "more than one")

    def test_a_file_that_is_too_long_is_found(self) -> None:
        """One of exactly the limit is not."""
        self.assert_one(self.found(logd__net__a="\n" * (LONG_FILE + 1)), "logd.net.a", str(LONG_FILE))
        self.assertEqual(self.found(logd__net__a="\n" * LONG_FILE), [])

    def test_a_module_outside_every_room_is_found(self) -> None:
        """A new folder has to be given its place in `tests/components.py` first."""
        self.assert_one(self.found(logd__utils=""), "logd.utils", "no component")

    def test_the_inside_does_not_import_the_package_itself(self) -> None:
        """Its re-exports are for users; its version is for both."""
        face = {"logd": "from logd.client.producer import Producer", "logd__client__producer": ""}
        self.assertEqual(self.found(**face, logd__net__a="from logd import __version__"), [])
        self.assert_one(self.found(**face, logd__net__a="from logd import Producer"), "logd.Producer")
        self.assert_one(self.found(**face, logd__net__a="import logd"), "package itself")

    def test_the_longer_prefix_decides_a_modules_room(self) -> None:
        """No prefix is in two components, and the order of the components does not matter."""
        prefixes = [prefix for component in COMPONENTS for prefix in component.prefixes]
        self.assertEqual(sorted(set(prefixes)), sorted(prefixes))
        outer, inner = (
            Component("outer", 2, ("logd.coord",)),
            Component("inner", 2, ("logd.coord.tree",), forbidden=("twisted",)),
        )
        for components in ((outer, inner), (inner, outer)):
            self.assert_one(problems([Module("logd.coord.tree.a", "import twisted")], components), "component inner")
            self.assertEqual(problems([Module("logd.coord.a", "import twisted")], components), [])

    def test_the_spark_folder_is_read_once(self) -> None:
        """It is named as it is imported, although the symlink shows it a second time."""
        with TemporaryDirectory() as folder:
            root = Path(folder)
            for name in (
                "logd/__init__.py",
                "logd/log/__init__.py",
                "logd/log/a.py",
                "spark/__init__.py",
                "spark/b.py",
            ):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("")
            (root / "logd" / "spark").symlink_to("../spark")
            modules = read_tree(root)
        self.assertEqual(
            [(module.name, module.is_package) for module in modules],
            [("logd", True), ("logd.log", True), ("logd.log.a", False), ("logd.spark", True), ("logd.spark.b", False)],
        )


class ClassAttributesTests(SynchronousTestCase):
    """The counting of attributes, on made-up classes."""

    def found(self, **sources: str) -> dict[str, int]:
        """The number of attributes of each class that has any."""
        return large_classes([Module(name.replace("__", "."), text) for name, text in sources.items()], most=0)

    def test_assigned(self) -> None:
        """An attribute that methods assign counts once, in whatever form; one that is only read does not count."""
        text = """
        class A:
            log = 1
            def f(self):
                self.a: int = 1
                self.b, (self.c, other.d) = self.e, 2
                self.a += 1
                for self.f in (): pass
        """
        self.assertEqual(self.found(logd__m=dedent(text)), {"logd.m.A": 4})

    def test_fields(self) -> None:
        """The fields of a record count, class variables and the annotations of a protocol do not."""
        text = """
        @attrs.frozen(kw_only=True)
        class A:
            a: int
            b: int = field(default=1)
            c: ClassVar[int] = 2
        class B(Protocol):
            a: int
        """
        self.assertEqual(self.found(logd__m=dedent(text)), {"logd.m.A": 2})

    def test_bases(self) -> None:
        """Attributes of bases count, those of a base in another module by its import, and a name alone is no base."""
        base = "class Base:\n def f(self): self.a = 1"
        derived = "from logd.m import Base\nclass A(Base[int]):\n def f(self): self.b = self.a = 1"
        other = "import other\nclass C(other.Base):\n def f(self): self.b = 1"
        self.assertEqual(
            self.found(logd__m=base, logd__n=derived, logd__o=other), {"logd.m.Base": 1, "logd.n.A": 2, "logd.o.C": 1}
        )

    def test_problems(self) -> None:
        """A class that is large without a reason, has grown, or is smaller than the table says, is a problem."""
        found = attribute_problems({"new": 16, "grown": 18, "shrunk": 16}, dict.fromkeys(["grown", "shrunk"], (17, "")))
        self.assertEqual([problem.split()[0] for problem in found], ["grown", "new", "shrunk"])
        self.assertEqual(len(attribute_problems({}, {"small": (16, "")})), 1)
