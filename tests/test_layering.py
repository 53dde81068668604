"""Holds the floors of ARCHITECTURE.md, and the checker that does so."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from tests.layering import LONG_FILE, ROOMS, Module, Room, large_folders, problems, read_tree

ROOT = Path(__file__).resolve().parent.parent


class TreeTests(SynchronousTestCase):
    """The project as it is."""

    def test_floors_are_kept(self) -> None:
        """No file of the project breaks a rule."""
        found = problems(read_tree(ROOT))
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_every_room_is_read(self) -> None:
        """The walk finds modules in the rooms that are there: it does not pass because it looked elsewhere."""
        names = {module.name for module in read_tree(ROOT)}
        for expected in ("logd", "logd.errors", "logd.config.log", "logd.spark", "twisted.plugins.logd_plugin"):
            self.assertIn(expected, names)

    def test_folders_are_small(self) -> None:
        """No folder, of the tests either, has more modules than a reader can choose from."""
        self.assertEqual(large_folders(ROOT), [])

    def test_tests_are_short_too(self) -> None:
        """No file of the tests is longer than a file may be."""
        tests = (ROOT / "tests").rglob("*.py")
        self.assertEqual([str(path) for path in tests if path.read_text().count("\n") > LONG_FILE], [])

    def test_class_names_are_unique(self) -> None:
        """No two modules define a class of the same name, so that a name alone says which class is meant."""
        homes: defaultdict[str, list[str]] = defaultdict(list)
        for module in read_tree(ROOT):
            for node in ast.walk(ast.parse(module.text)):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(module.name)
        self.assertEqual({name: modules for name, modules in homes.items() if len(modules) > 1}, {})


class CheckerTests(SynchronousTestCase):
    """The checker on made-up trees."""

    def found(self, **sources: str) -> list[str]:
        """Problems of a tree: names with ``__`` for dots; a package's own text under its name."""
        names = {name.replace("__", "."): text for name, text in sources.items()}
        return problems(
            Module(name, text, any(other.startswith(f"{name}.") for other in names)) for name, text in names.items()
        )

    def assert_one(self, found: list[str], *words: str) -> None:
        """There is one problem, and it names all the words."""
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_downwards(self) -> None:
        """Imports of floors below are allowed."""
        self.assertEqual(
            self.found(
                logd__errors="import attrs",
                logd__log__segment="from logd.errors import LogdError\nfrom logd.protocol.loops import check_set",
                logd__protocol__loops="import struct\nfrom zlib import crc32",
            ),
            [],
        )

    def test_upwards(self) -> None:
        """An import of a floor above is found, by whichever way it is written."""
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

    def test_relative_in_package(self) -> None:
        """A relative import in an ``__init__.py`` is relative to the package itself."""
        tree = {"logd__log": "from . import store\nfrom ..broker import service"}
        self.assert_one(self.found(**tree, logd__log__store="", logd__broker__service=""), "logd.broker.service")

    def test_same_floor(self) -> None:
        """Rooms on one floor do not know each other."""
        for one, other in (
            ("log", "coord"),
            ("broker", "client"),
            ("client", "broker"),
            ("bench", "tap"),
            ("web", "tap"),
        ):
            tree = {f"logd__{one}__a": f"import logd.{other}.b", f"logd__{other}__b": ""}
            self.assert_one(self.found(**tree), f"logd.{one}.a:1", f"logd.{other}.b")

    def test_beside(self) -> None:
        """The assembly of the broker may mount the pages beside it."""
        self.assertEqual(self.found(logd__tap="from logd.web.site import site", logd__web__site=""), [])

    def test_forbidden_modules(self) -> None:
        """Protocol and log import no Twisted, threads, time or file operations."""
        for room in ("protocol", "log"):
            for text in ("import twisted.python", "from twisted import logger", "import threading", "import os"):
                self.assert_one(self.found(**{f"logd__{room}__a": text}), f"room {room}", text.split()[1])
            self.assert_one(self.found(**{f"logd__{room}__a": "from time import time"}), "time.time")
            self.assertEqual(self.found(**{f"logd__{room}__a": "from os.path import join"}), [])

    def test_files_may(self) -> None:
        """The room with the operating system's file operations may import them."""
        self.assertEqual(self.found(logd__log__disk__local_files="import os\nopen('x')"), [])

    def test_calls(self) -> None:
        """A call that reads or writes outside is found in protocol and log."""
        self.assert_one(self.found(logd__log__store="open('x')"), "logd.log.store:1", "open()")
        self.assertEqual(self.found(logd__log__store="files.open('x')"), [])

    def test_hidden_imports(self) -> None:
        """An import by name is found."""
        self.assert_one(self.found(logd__net__a="\n__import__('logd.tap')"), "logd.net.a:2", "__import__")

    def test_floor_0_packages(self) -> None:
        """Floor 0 knows attrs and zope.interface and nothing else that has to be installed."""
        self.assertEqual(self.found(logd__errors="from zope.interface import Interface\nimport attrs, tomllib"), [])
        self.assert_one(self.found(logd__errors="import click"), "click")

    def test_reactor(self) -> None:
        """The reactor is imported in functions only."""
        for text in (
            "from twisted.internet import reactor",
            "import twisted.internet.reactor",
            "try:\n    from twisted.internet import reactor, defer\nexcept ImportError:\n    pass",
            "class A:\n    from twisted.internet import reactor",
        ):
            self.assert_one(self.found(logd__cli__main=text), "logd.cli.main", "reactor")
        self.assertEqual(self.found(logd__cli__main="def run():\n    from twisted.internet import reactor"), [])

    def test_circles(self) -> None:
        """A circle inside a room is found once and shown, however long it is and wherever it begins."""
        tree = {
            "logd__log__a": "import logd.log.b",
            "logd__log__b": "from logd.log import c",
            "logd__log__c": "def late():\n    from logd.log.a import x",
            "logd__log__d": "import logd.log.a",
        }
        self.assert_one(self.found(**tree), "logd.log.a -> logd.log.b -> logd.log.c -> logd.log.a")

    def test_circle_of_folders(self) -> None:
        """Two folders may not import from one another, even where no two modules do."""
        tree = {
            "logd__log__a__one": "import logd.log.b.one",
            "logd__log__a__two": "",
            "logd__log__b__one": "",
            "logd__log__b__two": "import logd.log.a.two",
        }
        self.assert_one(self.found(**tree), "folders of logd.log in a circle: a -> b -> a")

    def test_circle_with_package(self) -> None:
        """A module that imports its own package, which imports it, is in a circle."""
        tree = {"logd__config": "from logd.config.log import X", "logd__config__log": "from logd.config import Y"}
        self.assert_one(self.found(**tree), "logd.config -> logd.config.log -> logd.config")

    def test_no_circle(self) -> None:
        """Two ways to one module are no circle."""
        tree = {
            "logd__log__a": "import logd.log.b, logd.log.c",
            "logd__log__b": "import logd.log.d",
            "logd__log__c": "import logd.log.d",
            "logd__log__d": "",
        }
        self.assertEqual(self.found(**tree), [])

    def test_types_go_round(self) -> None:
        """A circle of types alone is allowed inside a room; the other branch of the test for it is no such place."""
        tree = {"logd__log__a": "import logd.log.b", "logd__log__b": "if TYPE_CHECKING:\n    import logd.log.a"}
        self.assertEqual(self.found(**tree), [])
        tree["logd__log__b"] = "if TYPE_CHECKING:\n    pass\nelse:\n    import logd.log.a"
        self.assert_one(self.found(**tree), "circle")

    def test_kazoo(self) -> None:
        """One module of the coordination room knows kazoo, and no other."""
        self.assertEqual(self.found(logd__coord__a="from kazoo.client import KazooClient"), [])
        self.assert_one(self.found(logd__broker__a="import kazoo"), "logd.broker.a", "kazoo")
        self.assert_one(self.found(logd__coord__a="import kazoo", logd__coord__b="import kazoo"), "more than one")

    def test_length(self) -> None:
        """A file that is too long is found, and one of exactly the limit is not."""
        self.assert_one(self.found(logd__net__a="\n" * (LONG_FILE + 1)), "logd.net.a", str(LONG_FILE))
        self.assertEqual(self.found(logd__net__a="\n" * LONG_FILE), [])

    def test_no_room(self) -> None:
        """A module outside every room is found."""
        self.assert_one(self.found(logd__utils=""), "logd.utils", "no room")

    def test_face(self) -> None:
        """The package's re-exports are for users, not for the inside; its version is for both."""
        face = {"logd": "from logd.client.producer import Producer", "logd__client__producer": ""}
        self.assertEqual(self.found(**face, logd__net__a="from logd import __version__"), [])
        self.assert_one(self.found(**face, logd__net__a="from logd import Producer"), "logd.Producer")
        self.assert_one(self.found(**face, logd__net__a="import logd"), "package itself")

    def test_rooms_are_disjoint(self) -> None:
        """No module can be in two rooms: where one prefix begins with another, the longer one counts."""
        prefixes = [prefix for room in ROOMS for prefix in room.prefixes]
        self.assertEqual(sorted(set(prefixes)), sorted(prefixes))
        outer, inner = Room("outer", 2, ("logd.coord",)), Room("inner", 2, ("logd.coord.tree",), forbidden=("twisted",))
        for rooms in ((outer, inner), (inner, outer)):
            self.assert_one(problems([Module("logd.coord.tree.a", "import twisted")], rooms), "room inner")
            self.assertEqual(problems([Module("logd.coord.a", "import twisted")], rooms), [])

    def test_read_tree(self) -> None:
        """The spark folder is read once, under the name that it is imported by."""
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
