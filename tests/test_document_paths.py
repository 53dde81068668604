"""Tests that the files, folders, modules and classes that documents name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from tests.documentation.pages import ROOT, pages

#: A path from the project's root; one with more before it, such as /var/lib/logd/tree, is none.
_PATH = re.compile(r"(?<![\w./-])(?:changelog\.d|demo|docs|examples|logd|spark|tests|twisted)/[\w./*-]*")
#: A path from a folder that the page names, or a file's name alone: documents of the design have these.
_SHORT_PATH = re.compile(r"`([\w*-]+(?:/[\w*-]+)*(?:\.py|/))`")
#: A module, and perhaps a class and a method in it.
_MODULE = re.compile(r"(?<![\w./-])(?:logd|tests|demo)(?:\.\w+)+")
#: Endings of file names that only look like modules.
_ENDINGS = ("gz", "log", "pid", "toml", "zip")


def _documents() -> Iterator[tuple[str, str]]:
    for page in (*pages(), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"):
        yield page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")


def _is_path(path: str) -> bool:
    """Return whether a path, in which * stands for anything, is that of a file or folder in the project."""
    return any(ROOT.glob(path.strip("/")))


def _is_short_path(path: str) -> bool:
    """Return whether a path is that of a file or folder somewhere in the sources or tests."""
    return any(any((ROOT / folder).rglob(path.strip("/"))) for folder in ("logd", "spark", "tests"))


def _is_name(dotted: str) -> bool:
    """Return whether ``dotted`` is a module, or up to three names that stand in one (or that every module has)."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:count])
        sources = [path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()]
        if sources:
            text = sources[0].read_text(encoding="utf-8")
            rest = parts[count:]
            return len(rest) <= 3 and all(name.startswith("__") or re.search(rf"\b{name}\b", text) for name in rest)
    return False


def _is_namespace(dotted: str) -> bool:
    """Return whether ``dotted`` is what log lines are found by, without being a module."""
    return any(
        f'Logger(namespace="{dotted}")' in path.read_text(encoding="utf-8") for path in (ROOT / "logd").rglob("*.py")
    )


class DocumentPathTests(SynchronousTestCase):
    """README, ARCHITECTURE, CONTRIBUTING and the pages of docs/."""

    def test_paths_from_the_root_exist(self) -> None:
        """A renamed file or folder is renamed in the documents too."""
        wrong = [
            f"{page}: {path}"
            for page, text in _documents()
            for path in (found.rstrip(".") for found in _PATH.findall(text))
            if not _is_path(path)
        ]
        self.assertEqual(wrong, [])

    def test_short_paths_exist_in_some_folder(self) -> None:
        """The pages of the design leave out the first folders of a path."""
        saved = set(re.findall(r"^```python (\S+)$", "\n".join(text for _, text in _documents()), re.M))
        wrong = [
            f"{page}: {path}"
            for page, text in _documents()
            for path in _SHORT_PATH.findall(text)
            if path.endswith(".py") or page.startswith("docs/design/")
            if path not in saved and not _is_path(path) and not _is_short_path(path)
        ]
        self.assertEqual(wrong, [])

    def test_modules_and_their_names_exist(self) -> None:
        """A dotted name is a module, or a class, function or test in one, or a namespace of log lines."""
        wrong = [
            f"{page}: {dotted}"
            for page, text in _documents()
            for dotted in _MODULE.findall(text)
            if dotted.rpartition(".")[2] not in _ENDINGS and not (_is_name(dotted) or _is_namespace(dotted))
        ]
        self.assertEqual(wrong, [])
