"""Tests of logd.protocol.loops itself: the one place that chooses an implementation."""

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
from tests.protocol.loops.implementations import IMPLEMENTATIONS, LoopsTestCase, on_each_implementation
from tests.protocol.loops.test_damage import PrefixTests


def loaded(**environment: str) -> subprocess.CompletedProcess[str]:
    """Load the loops in a process of their own, and print the name of the implementation."""
    program = "from logd.protocol import loops; print(loops.IMPLEMENTATION)"
    given = {name: value for name, value in os.environ.items() if name != "LOGD_LOOPS"}
    return subprocess.run(
        [sys.executable, "-c", program], env=given | environment, capture_output=True, text=True, check=False
    )


class ChoiceTests(SynchronousTestCase):
    """LOGD_LOOPS names the implementation."""

    def test_named(self) -> None:
        """The implementation in Python is there under its name, and is used where none is named."""
        for environment in ({}, {"LOGD_LOOPS": ""}, {"LOGD_LOOPS": "python"}):
            self.assertEqual(loaded(**environment).stdout, "python\n")

    def test_unknown(self) -> None:
        """A name of no implementation is an error that says so, never another implementation."""
        result = loaded(LOGD_LOOPS="fast")
        self.assertIn("ImportError: LOGD_LOOPS is 'fast'", result.stderr)
        self.assertNotEqual(result.returncode, 0)

    def test_in_use(self) -> None:
        """The loops that everybody calls are those of the implementation in use, every one of them."""
        chosen = IMPLEMENTATIONS[loops.IMPLEMENTATION]
        for name in chosen.__all__:
            self.assertIs(getattr(loops, name), getattr(chosen, name))

    def test_complete(self) -> None:
        """Each implementation has every loop."""
        functions = {name for name in loops.__all__ if name.islower()}
        for implementation in IMPLEMENTATIONS.values():
            self.assertEqual(set(implementation.__all__), functions)


class EachTests(SynchronousTestCase):
    """The tests of the loops run on each implementation."""

    def test_one_class_for_each(self) -> None:
        """Beside a class of tests stands one for each further implementation, which calls that one."""
        other = type(sys)("other")
        self.patch(implementations, "IMPLEMENTATIONS", {**IMPLEMENTATIONS, "other": other})
        module = sys.modules[__name__]
        cases = type("Cases", (LoopsTestCase,), {"__module__": __name__})
        self.addCleanup(lambda: delattr(module, "Cases_other"))
        self.assertIs(on_each_implementation(cases), cases)
        made = vars(module)["Cases_other"]
        self.assertTrue(issubclass(made, cases))
        self.assertIs(made.loops, other)

    def test_names(self) -> None:
        """The implementation in Python is tested under the plain name."""
        self.assertEqual(PrefixTests.loops, IMPLEMENTATIONS["python"])


class ImportTests(SynchronousTestCase):
    """The loops are called through the module that chooses."""

    def test_no_names(self) -> None:
        """No other module of the project imports a loop, or an implementation, by name."""
        wrong = [
            module.name
            for module in read_tree(Path(__file__).resolve().parents[3])
            if "from logd.protocol.loops" in module.text and not module.name.startswith("logd.protocol.loops")
        ]
        self.assertEqual(wrong, [])

    def test_one_layout(self) -> None:
        """No other modules than those of the layouts pack or unpack the head of an entry."""
        wrong = [
            module.name
            for module in read_tree(Path(__file__).resolve().parents[3])
            if re.search(r'Struct\(">iB', module.text)
            and module.name not in ("logd.protocol.entry", "logd.protocol.batch_layout")
        ]
        self.assertEqual(wrong, [])
