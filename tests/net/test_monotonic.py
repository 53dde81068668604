"""Tests of a reactor whose time does not follow the system's time of day."""

from __future__ import annotations

from unittest import mock

from twisted.internet.selectreactor import SelectReactor
from twisted.trial.unittest import SynchronousTestCase

from logd.net.monotonic import use_monotonic_time


class MonotonicTimeTests(SynchronousTestCase):
    """A reactor, a time of day that the test sets, and a monotonic clock that it does not set."""

    def setUp(self) -> None:
        """Make the reactor, which does not run; a test calls what is due."""
        self.wall, self.monotonic = 1_600_000_000.0, 50.0
        self.reactor = SelectReactor()
        self.addCleanup(self.close)
        self.reactor.seconds = lambda: self.wall  # as a reactor does: time.time
        self.called: list[str] = []
        self.reactor.callLater(10.0, self.called.append, "before")
        use_monotonic_time(self.reactor, lambda: self.monotonic)
        self.reactor.callLater(20.0, self.called.append, "after")

    def close(self) -> None:
        """Close the reactor's own descriptors."""
        for reader in self.reactor.removeAll():
            reader.connectionLost(None)

    def pass_time(self, seconds: float) -> list[str]:
        """Let real time pass; return the calls that were made."""
        self.wall += seconds
        self.monotonic += seconds
        with mock.patch("time.time", lambda: self.wall):
            self.reactor.timeout()  # takes new calls, as each turn does
            self.reactor.runUntilCurrent()
        called = self.called[:]
        self.called.clear()
        return called

    def test_time_goes_on_where_it_was(self) -> None:
        """The pace stays the same, too."""
        self.assertEqual(self.reactor.seconds(), 1_600_000_000.0)
        self.pass_time(3.0)
        self.assertEqual(self.reactor.seconds(), 1_600_000_003.0)

    def test_a_clock_set_back_delays_no_call(self) -> None:
        """Neither one that was scheduled before the change nor a later one."""
        self.wall -= 3600.0
        self.assertEqual(self.pass_time(9.9), [])
        self.assertEqual(self.pass_time(0.2), ["before"])
        self.assertEqual(self.pass_time(10.0), ["after"])

    def test_a_clock_set_forward_hurries_no_call(self) -> None:
        """Timeouts would strike at once otherwise."""
        self.wall += 3600.0
        self.assertEqual(self.pass_time(9.9), [])
        self.assertEqual(self.pass_time(10.2), ["before", "after"])

    def test_a_second_change_is_ignored(self) -> None:
        """The reactor keeps the clock of the first one."""
        seconds = self.reactor.seconds
        use_monotonic_time(self.reactor, lambda: 0.0)
        self.assertIs(self.reactor.seconds, seconds)
