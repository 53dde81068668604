"""Tests of the choice of how many messages a measurement has."""

from __future__ import annotations

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logd.bench.systems.client_main import Measured
from logd.bench.systems.sizing import messages_in


@define
class _Client:
    """Sends ``rate`` messages a second, after ``start`` seconds."""

    rate: float
    start: float = 0.0
    tried: list[int] = field(factory=list)

    def send(self, messages: int) -> Measured:
        self.tried.append(messages)
        return Measured(messages, self.start + messages / self.rate, 0.0, 0.0)


class MessagesInTests(SynchronousTestCase):
    """``messages_in``."""

    def test_a_slow_client_sends_what_it_can_in_the_time(self) -> None:
        """One trial is enough for 700 a second."""
        client = _Client(700)
        self.assertEqual(messages_in(5, 2_000_000, client.send), 3_500)
        self.assertEqual(client.tried, [1_000])

    def test_a_very_slow_client_is_not_waited_for_again(self) -> None:
        """Its only trial may have taken longer than the measurement will."""
        self.assertEqual(messages_in(5, 2_000_000, _Client(20).send), 100)

    def test_a_client_that_begins_slowly_is_not_taken_for_a_slow_one(self) -> None:
        """By its first 1,000 messages it would send 10,000 in the time."""
        client = _Client(200_000, 0.5)
        self.assertEqual(messages_in(5, 2_000_000, client.send), 1_000_000)
        self.assertEqual(client.tried, [1_000, 4_000, 16_000, 64_000, 256_000])

    def test_trials_that_took_as_long_do_not_make_a_client_infinitely_fast(self) -> None:
        """All of them took about a second here: the last is counted as five times as fast."""
        seconds = iter([0.999, 0.998, 1.0])
        found = messages_in(5, 2_000_000, lambda messages: Measured(messages, next(seconds), 0.0, 0.0))
        self.assertEqual(found, 400_000)

    def test_a_fast_client_sends_the_most(self) -> None:
        """No trial has as many messages as that."""
        client = _Client(1_500_000)
        self.assertEqual(messages_in(5, 2_000_000, client.send), 2_000_000)
        self.assertEqual(client.tried, [1_000, 10_000, 100_000, 1_000_000])

    def test_few_messages_need_no_trial(self) -> None:
        """As in a short run."""
        client = _Client(10)
        self.assertEqual(messages_in(5, 500, client.send), 500)
        self.assertEqual(client.tried, [])
