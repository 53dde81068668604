"""Tests of what makes a run of a client's own tests red."""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from tests.kafka_clients.suites.__main__ import wrong
from tests.kafka_clients.suites.suite import FAILED, PASSED, SKIPPED, Suite

_SUITE = Suite(name="client", version="1", tests="tests", expected={"test_a": "no a", "test_b[*]": "no b"})
_AS_EXPECTED = {
    "test_a": (FAILED, "AssertionError"),
    "test_b[1]": (FAILED, "AssertionError"),
    "test_b[2]": (FAILED, "AssertionError"),
    "test_c": (PASSED, ""),
    "test_d": (SKIPPED, "needs Kafka 4"),
}


class ExpectationTests(SynchronousTestCase):
    """A run is as expected, or says which test is not."""

    def test_as_expected(self) -> None:
        """Failures with a reason, passes and skipped tests are."""
        self.assertEqual(wrong(_SUITE, _AS_EXPECTED, whole=True), [])

    def test_new_failure(self) -> None:
        """A failure without a reason is not."""
        found = wrong(_SUITE, {**_AS_EXPECTED, "test_c": (FAILED, "KeyError: 'x'")}, whole=True)
        self.assertEqual(found, ["FAILED: test_c: KeyError: 'x'"])

    def test_unexpected_pass(self) -> None:
        """An expected failure that passes, or is skipped, is not."""
        found = wrong(_SUITE, {**_AS_EXPECTED, "test_b[2]": (PASSED, ""), "test_a": (SKIPPED, "")}, whole=True)
        self.assertEqual(
            found,
            ["SKIPPED, though it should fail: test_a: no a", "PASSED, though it should fail: test_b[2]: no b"],
        )

    def test_expectation_about_no_test(self) -> None:
        """An expectation whose test is gone is not, unless only some tests were run."""
        some = {"test_a": _AS_EXPECTED["test_a"]}
        self.assertEqual(wrong(_SUITE, some, whole=True), ["NO SUCH TEST: test_b[*]"])
        self.assertEqual(wrong(_SUITE, some, whole=False), [])

    def test_either_outcome(self) -> None:
        """A failure and a pass of a test that does both are as expected, but not that there is no such test."""
        suite = evolve(_SUITE, unsteady={"test_c": "a race in the test"})
        for outcome in ((FAILED, "Timeout"), (PASSED, "")):
            self.assertEqual(wrong(suite, {**_AS_EXPECTED, "test_c": outcome}, whole=True), [])
        without = {test: outcome for test, outcome in _AS_EXPECTED.items() if test != "test_c"}
        self.assertEqual(wrong(suite, without, whole=True), ["NO SUCH TEST: test_c"])
