"""Tests that the simulation of replication finds each rule that is switched off, as docs/design/replication.md says."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.frozen_objects import freeze_others
from tests.simulation.mutations.patching import problems_of
from tests.simulation.replication.life import live
from tests.simulation.replication.rules.directed import DIRECTED_RULES
from tests.simulation.replication.rules.mutations import RULES, Rule
from tests.simulation.violation import Violation

DOCUMENT = Path(__file__).parents[4] / "docs" / "design" / "replication.md"
#: Seeds, with the kinds of faults that a rule names, before its mutation counts as not found.
MOST = 60
#: Seeds that are tried first, from the one on that is recorded. Any change of timing moves the seeds, so that all seeds
#: are tried where the record has become wrong.
TRIES = 5
#: Errors of a mutation itself.
BUGS = (AttributeError, ImportError, NameError, TypeError)


class RuleTests(SynchronousTestCase):
    """Each rule is needed."""

    timeout = 24 * 3600

    def setUp(self) -> None:
        """Freeze the objects of other tests, so that no collection of garbage looks through them."""
        freeze_others(self)

    def test_the_simulation_finds_each_rule_switched_off(self) -> None:
        """A promise is broken within some seeds: one that nothing can break would be none."""
        for rule in RULES:
            with rule.mutation():
                seeds = chain(range(rule.seed, rule.seed + TRIES), range(MOST))
                found = any(self.breaks_a_promise(rule, seed) for seed in seeds)
            self.assertTrue(found, f"rule {rule.number}, {rule.mutation.__name__}, is not found")
            self.flushLoggedErrors()

    def breaks_a_promise(self, rule: Rule, seed: int) -> bool:
        """Return whether a seed raises Violation; any other error, or a bug of the mutation, fails the test."""
        try:
            live(seed, kinds=rule.kinds, calm=rule.calm)
        except Violation as violation:
            cause: BaseException | None = violation
            while cause is not None:
                self.assertFalse(isinstance(cause, BUGS), f"{rule.mutation.__name__} is itself broken: {violation}")
                cause = cause.__cause__
            return True
        return False

    def test_a_test_finds_each_rule_that_others_stand_behind(self) -> None:
        """It passes with the rule, and fails without it for the reason that is named."""
        for rule in DIRECTED_RULES:
            self.assertEqual(problems_of(rule.test_name), "", f"without {rule.mutation.__name__}")
            with rule.mutation():
                self.assertIn(rule.words, problems_of(rule.test_name), rule.mutation.__name__)

    def test_the_document_has_each_of_them(self) -> None:
        """With the number of seeds after which it was found."""
        text = DOCUMENT.read_text()
        for rule in RULES:
            row = f"(`{rule.mutation.__name__}`) | {rule.seed + 1} | {rule.invariant} |"
            self.assertIn(row, text)
            self.assertIn(f"| {rule.number} | ", text)
        for directed in DIRECTED_RULES:
            self.assertIn(f"(`{directed.mutation.__name__}`) | `{directed.test_name.rpartition('.')[2]}` |", text)
        numbers = {rule.number for rule in RULES} | {directed.number for directed in DIRECTED_RULES}
        self.assertEqual(numbers, set(range(1, 14)))
