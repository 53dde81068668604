"""Tests of logd.testing.memory.event_clock."""

from __future__ import annotations

from twisted.internet.error import AlreadyCancelled
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.memory.event_clock import EventClock


class EventClockTests(SynchronousTestCase):
    """The clock that goes from one delayed call to the next."""

    def test_calls_run_by_time_then_by_request(self) -> None:
        """Calls for one moment run in the order in which they were asked for; a cancelled one does not run."""
        clock = EventClock()
        seen: list[tuple[str, float]] = []
        for name, delay in (("c", 2.0), ("a", 1.0), ("x", 1.5), ("b", 1.0)):
            call = clock.callLater(delay, lambda name=name: seen.append((name, clock.seconds())))
            if name == "x":
                call.cancel()
                self.assertFalse(call.active())
                self.assertRaises(AlreadyCancelled, call.cancel)
        while clock.step():
            pass
        self.assertEqual(seen, [("a", 1.0), ("b", 1.0), ("c", 2.0)])
        self.assertEqual((clock.step(), clock.seconds()), (False, 2.0))

    def test_a_step_runs_no_call_beyond_its_end(self) -> None:
        """A later call waits, and the clock stands at the end that was given."""
        clock = EventClock(10.0)
        seen: list[int] = []
        clock.callLater(2.0, seen.append, 1)
        self.assertFalse(clock.step(11.0))
        self.assertEqual((seen, clock.seconds()), ([], 11.0))
        self.assertTrue(clock.step(12.0))
        self.assertEqual((seen, clock.seconds()), ([1], 12.0))
