"""Tests of an extension that is not of the code around it, as after an update of a checkout without a build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

from twisted.trial.unittest import SynchronousTestCase

import logd
from logd import __version__
from logd.protocol import implementation
from logd.protocol.implementation import NAMES
from logd.protocol.loops import python
from tests.protocol.loops.implementations import NOT_COMPILED

ROOT = Path(logd.__file__).resolve().parents[1]

#: Uses a checksum and a loop, and prints which ones they are.
USES = (
    "from logd.protocol import checksums, loops; from logd.protocol.message import Message; "
    "assert len(loops.decode_set(loops.encode_set([Message(b'm')])).messages) == 1; "
    "print(loops.IMPLEMENTATION, checksums.crc32.__module__)"
)


class NamesTests(SynchronousTestCase):
    """The list of what logd takes from the extension."""

    def test_every_loop_is_among_the_names(self) -> None:
        """A loop that is missing there would be missed only by the import that needs it."""
        self.assertLessEqual(set(python.__all__), set(NAMES))


class StaleExtensionTests(SynchronousTestCase):
    """A copy of the checkout whose extension was built from another source."""

    if NOT_COMPILED is not None:
        skip = NOT_COMPILED

    def setUp(self) -> None:
        """Copy the package, and setup.py, by which a checkout is known."""
        self.root = Path(self.mktemp()).resolve()
        copytree(ROOT / "logd", self.root / "logd", ignore=ignore_patterns("__pycache__"))  # follows logd/spark
        copy(ROOT / "setup.py", self.root)
        self.source = self.root / "logd" / "protocol" / "_compiled.c"

    def run_there(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Python on the copy."""
        given = {name: value for name, value in os.environ.items() if name != "LOGD_LOOPS"}
        given |= {"PYTHONPATH": str(self.root), **environment}
        return subprocess.run(
            [sys.executable, *arguments], env=given, capture_output=True, text=True, check=False, cwd=self.root
        )

    def make_stale(self) -> None:
        """Change the source, as an update does."""
        self.source.write_bytes(self.source.read_bytes() + b"/* changed */\n")

    def test_an_extension_of_this_source_is_used(self) -> None:
        """Without a word. The same without the source, as in an installation from a wheel."""
        for _ in range(2):
            result = self.run_there("-c", USES)
            self.assertEqual((result.stdout, result.stderr), ("compiled logd.protocol._compiled\n", ""))
            self.source.unlink(missing_ok=True)

    def test_an_extension_of_another_source_is_not_used(self) -> None:
        """All loops and checksums are those in Python then, and one warning says how to build the extension again."""
        self.make_stale()
        result = self.run_there("-c", USES)
        self.assertEqual(result.stdout, "python zlib\n", result.stderr)
        self.assertEqual(result.stderr.count("RuntimeWarning"), 1, result.stderr)
        self.assertIn("built from another version of logd/protocol/_compiled.c", result.stderr)
        self.assertIn(f"cd {self.root} && {sys.executable} setup.py build_ext --inplace --force", result.stderr)

    def test_the_version_says_why(self) -> None:
        """It is what a bug report quotes."""
        self.make_stale()
        result = self.run_there("-m", "logd.cli", "--version")
        reason = "the compiled ones cannot be used: they were built from another version of logd/protocol/_compiled.c"
        self.assertEqual(result.stdout, f"logd {__version__} (loops: python; {reason})\n", result.stderr)

    def test_an_extension_without_a_name_is_not_used(self) -> None:
        """Without a source to compare, the extension must have each name that logd takes from it."""
        self.source.unlink()
        for name in ("heads_of_set", "crc32c", "SOURCE_CRC"):
            without = f"from logd.protocol import _compiled; del _compiled.{name}; "
            result = self.run_there("-c", without + USES)
            self.assertEqual(result.stdout, "python zlib\n", result.stderr)
            self.assertIn(f"{name} is not among them", result.stderr)

    def test_an_extension_that_cannot_be_loaded_is_not_used(self) -> None:
        """For instance after a build that a full disk cut short."""
        for extension in self.source.parent.glob("_compiled*.so"):
            extension.unlink()
            extension.write_bytes(b"\x7fELF")
        result = self.run_there("-c", USES)
        self.assertEqual(result.stdout, "python zlib\n", result.stderr)
        self.assertIn("they cannot be loaded", result.stderr)

    def test_an_extension_that_is_asked_for_is_an_error(self) -> None:
        """A benchmark that names the implementation must not measure another one."""
        self.make_stale()
        result = self.run_there("-c", USES, LOGD_LOOPS="compiled")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("ImportError: LOGD_LOOPS is 'compiled', but the compiled loops cannot be used", result.stderr)
        self.assertIn("setup.py build_ext --inplace --force", result.stderr)

    def test_python_that_is_asked_for_needs_no_warning(self) -> None:
        """The extension does not matter then."""
        self.make_stale()
        result = self.run_there("-c", USES, LOGD_LOOPS="python")
        self.assertEqual((result.stdout, result.stderr), ("python zlib\n", ""))


class ReasonTests(SynchronousTestCase):
    """The words on the implementation in use."""

    def test_the_reason_is_that_of_the_process(self) -> None:
        """Tests run with either implementation."""
        self.assertIn(implementation.REASON, implementation.described())
        self.assertIn(implementation.IMPLEMENTATION, implementation.described())
