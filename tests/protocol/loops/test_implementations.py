"""Tests of logd.protocol.loops itself, the only place that chooses an implementation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from tests.layering import read_tree
from tests.protocol.loops import implementations
from tests.protocol.loops.implementations import (
    IMPLEMENTATIONS,
    NOT_COMPILED,
    LoopsTestCase,
    on_each_implementation,
)
from tests.protocol.loops.test_damage import PrefixTests


def loaded(before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a process that loads the loops and prints the name of the implementation, after the statements ``before``."""
    program = before + "from logd.protocol import loops; print(loops.IMPLEMENTATION)"
    given = {name: value for name, value in os.environ.items() if name != "LOGD_LOOPS"}
    return subprocess.run(
        [sys.executable, "-c", program], env=given | environment, capture_output=True, text=True, check=False
    )


class ChoiceTests(SynchronousTestCase):
    """The choice of the implementation by LOGD_LOOPS."""

    def test_the_compiled_loops_are_the_default_where_they_are_built(self) -> None:
        """With an empty variable too. Each implementation is also used under its name."""
        for environment in ({}, {"LOGD_LOOPS": ""}):
            self.assertEqual(loaded(**environment).stdout, "python\n" if NOT_COMPILED else "compiled\n")
        for name in IMPLEMENTATIONS:
            self.assertEqual(loaded(LOGD_LOOPS=name).stdout, f"{name}\n")

    def test_python_is_the_default_without_the_extension(self) -> None:
        """As on a machine without a C compiler; then compiled loops that are asked for are an error."""
        absent = "import sys; sys.modules['logd.protocol._compiled'] = None; "
        self.assertEqual(loaded(absent).stdout, "python\n")
        result = loaded(absent, LOGD_LOOPS="compiled")
        self.assertIn("ImportError: LOGD_LOOPS is 'compiled', but the compiled loops cannot be imported", result.stderr)
        self.assertNotEqual(result.returncode, 0)

    def test_checksums_are_of_the_same_implementation(self) -> None:
        """A process in Python alone measures what a machine without a compiler gets."""
        program = "from logd.protocol import checksums; print(checksums.crc32.__module__); "
        for name in IMPLEMENTATIONS:
            module = {"python": "zlib", "compiled": "logd.protocol._compiled"}[name]
            self.assertEqual(loaded(program, LOGD_LOOPS=name).stdout, f"{module}\n{name}\n")

    def test_an_unknown_implementation_is_an_error(self) -> None:
        """Another implementation must not be used silently: a benchmark would measure the wrong one."""
        result = loaded(LOGD_LOOPS="fast")
        self.assertIn("ImportError: LOGD_LOOPS is 'fast'", result.stderr)
        self.assertNotEqual(result.returncode, 0)

    def test_the_module_exports_the_chosen_loops(self) -> None:
        """Every loop, so that two implementations are never mixed."""
        chosen = IMPLEMENTATIONS[loops.IMPLEMENTATION]
        for name in chosen.__all__:
            self.assertIs(getattr(loops, name), getattr(chosen, name))

    def test_each_implementation_has_every_loop(self) -> None:
        """A missing loop would be noticed only at its first call."""
        functions = {name for name in loops.__all__ if name.islower()}
        for implementation in IMPLEMENTATIONS.values():
            self.assertEqual(set(implementation.__all__), functions)


class EachTests(SynchronousTestCase):
    """The decorator that runs tests on each implementation."""

    def test_each_implementation_gets_a_class_of_tests(self) -> None:
        """It is in the module beside the decorated class, where trial finds it."""
        other = type(sys)("other")
        self.patch(implementations, "IMPLEMENTATIONS", {**IMPLEMENTATIONS, "other": other})
        module = sys.modules[__name__]
        cases = type("Cases", (LoopsTestCase,), {"__module__": __name__})
        self.addCleanup(lambda: delattr(module, "Cases_other"))
        self.assertIs(on_each_implementation(cases), cases)
        made = vars(module)["Cases_other"]
        self.assertTrue(issubclass(made, cases))
        self.assertIs(made.loops, other)

    def test_python_is_tested_under_the_plain_name(self) -> None:
        """So that the name of a failing test is that in the file."""
        self.assertEqual(PrefixTests.loops, IMPLEMENTATIONS["python"])


class ImportTests(SynchronousTestCase):
    """Imports of the loops in the project's modules."""

    def test_no_module_imports_a_loop_by_name(self) -> None:
        """Loops are called through the module, so that tests and LOGD_LOOPS can replace them."""
        wrong = [
            module.name
            for module in read_tree(Path(__file__).resolve().parents[3])
            if "from logd.protocol.loops" in module.text and not module.name.startswith("logd.protocol.loops")
        ]
        self.assertEqual(wrong, [])

    def test_only_one_module_knows_the_layout(self) -> None:
        """A change of the format is made in the modules of the layouts; no other one packs or unpacks a head."""
        wrong = [
            module.name
            for module in read_tree(Path(__file__).resolve().parents[3])
            if re.search(r'Struct\(">iB', module.text)
            and module.name not in ("logd.protocol.entry", "logd.protocol.batch_layout")
        ]
        self.assertEqual(wrong, [])
