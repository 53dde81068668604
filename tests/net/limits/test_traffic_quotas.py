"""Tests of quotas that connections share: rates on a clock, and the order in which connections go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.token_bucket import TokenBucket
from logd.net.limits.traffic_quotas import SMALL_BYTES, ByteQuota, ConnectionMeter, RequestQuota
from logd.net.session import PauseReason


@define(eq=False)
class HeldConnection:
    """A connection that notes its pauses."""

    paused: set[PauseReason] = field(factory=set)
    resumes: int = 0
    #: Called when the connection goes on.
    then: Callable[[], None] = lambda: None

    def pause(self, reason: PauseReason) -> None:
        """See Holdable."""
        self.paused.add(reason)

    def resume(self, reason: PauseReason) -> None:
        """See Holdable."""
        self.paused.discard(reason)
        self.resumes += 1
        self.then()


class TokenBucketTests(SynchronousTestCase):
    """A rate on a clock."""

    def setUp(self) -> None:
        """Make a bucket for 1,000 a second."""
        self.clock = Clock()
        self.bucket = TokenBucket(self.clock, 1000)

    def test_a_debt_is_paid_by_waiting(self) -> None:
        """A second's worth is free; more takes its time."""
        self.bucket.take(1000)
        self.assertEqual(self.bucket.debt_seconds(), 0)
        self.assertEqual(self.bucket.debt_seconds(after=500), 0.5)
        self.bucket.take(2000)
        self.assertEqual(self.bucket.debt_seconds(), 2)
        self.clock.advance(1.5)
        self.assertAlmostEqual(self.bucket.debt_seconds(), 0.5)
        self.clock.advance(0.5)
        self.assertEqual(self.bucket.debt_seconds(), 0)

    def test_what_is_not_used_is_not_saved_for_ever(self) -> None:
        """After an hour of rest there is one second's worth."""
        self.clock.advance(3600)
        self.assertTrue(self.bucket.full)
        self.bucket.take(1500)
        self.assertEqual(self.bucket.debt_seconds(), 0.5)

    def test_another_rate_holds_from_now_on(self) -> None:
        """A debt is paid at the new rate."""
        self.bucket.take(3000)
        self.bucket.change_rate(4000)
        self.assertEqual(self.bucket.debt_seconds(), 0.5)
        self.clock.advance(10)
        self.bucket.change_rate(1000)
        self.bucket.take(1500)
        self.assertEqual(self.bucket.debt_seconds(), 0.5)


class ConnectionMeterTests(SynchronousTestCase):
    """Connections that share the quotas of one user."""

    def setUp(self) -> None:
        """Allow 100 KB a second in each direction, and three requests."""
        self.clock = Clock()
        self.incoming = ByteQuota(self.clock, PauseReason.QUOTA_IN, 100_000)
        self.outgoing = ByteQuota(self.clock, PauseReason.QUOTA_OUT, 100_000)
        self.requests = RequestQuota(self.clock, 3)

    def meter(self) -> tuple[HeldConnection, ConnectionMeter]:
        """Return a connection with its meter."""
        connection = HeldConnection()
        return connection, ConnectionMeter(connection, self.incoming, self.outgoing, (self.requests,))

    def test_a_connection_that_sends_too_much_is_held_until_the_debt_is_paid(self) -> None:
        """Over a minute the rate is that of the quota."""
        connection, meter = self.meter()
        carried = 0
        for _ in range(6000):
            if not connection.paused:
                meter.received(50_000)
                carried += 50_000
            self.clock.advance(0.01)
        self.assertTrue(60 * 100_000 <= carried <= 61 * 100_000 + 50_000, carried)
        self.assertGreater(self.incoming.held.seconds, 50)
        meter.leave()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_answers_that_are_too_large_hold_the_next_request(self) -> None:
        """The time to wait is known before they are sent."""
        connection, meter = self.meter()
        self.assertEqual(meter.throttle_ms(400_000), 3000)
        meter.sent(400_000)
        self.assertEqual((connection.paused, meter.throttle_ms()), ({PauseReason.QUOTA_OUT}, 3000))
        self.clock.advance(2.9)
        self.assertTrue(connection.paused)
        self.clock.advance(0.2)
        self.assertFalse(connection.paused)
        meter.leave()

    def test_connections_go_on_one_in_each_turn(self) -> None:
        """So what they have ready does not arrive at once; the longest held is the first."""
        pairs = [self.meter() for _ in range(100)]
        for _, meter in pairs:
            meter.received(50_000)
        held = [connection for connection, _ in pairs if connection.paused]
        self.assertEqual(len(held), 98)
        for connection, meter in pairs:
            connection.then = partial(meter.received, 50_000)
        self.clock.advance(48.9)
        self.assertEqual([each.resumes for each in held], [0] * 98)
        self.clock.advance(0.2)
        self.assertEqual([each.resumes for each in held], [1] + [0] * 97)
        self.clock.advance(0.5)
        self.assertEqual([each.resumes for each in held], [1, 1] + [0] * 96)
        for connection, meter in pairs:
            connection.then = lambda: None
            meter.leave()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_small_traffic_beside_the_bulk_is_not_held(self) -> None:
        """Heartbeats on another connection go on while the user is in debt, and count."""
        bulk, bulk_meter = self.meter()
        quiet, quiet_meter = self.meter()
        bulk_meter.received(1_000_000)
        for _ in range(10):
            quiet_meter.received(100)
            quiet_meter.sent(100)
        self.assertEqual((len(bulk.paused), len(quiet.paused)), (1, 0))
        quiet_meter.received(SMALL_BYTES)
        self.assertEqual(len(quiet.paused), 1)
        bulk_meter.leave()
        quiet_meter.leave()

    def test_a_higher_rate_holds_at_once(self) -> None:
        """A connection that would have waited for minutes goes on; without a limit at once."""
        connection, meter = self.meter()
        meter.received(100_000 * 601)
        self.clock.advance(1)
        self.incoming.change_rate(1_000_000_000)
        self.clock.advance(0.07)
        self.assertFalse(connection.paused)
        self.incoming.change_rate(1000)
        meter.received(50_000_000)
        self.assertTrue(connection.paused)
        self.incoming.change_rate(None)
        self.clock.advance(0)
        self.assertFalse(connection.paused)
        meter.leave()

    def test_requests_of_all_connections_share_the_room(self) -> None:
        """The one too many waits for an answer to any of them."""
        (one, first), (two, second) = self.meter(), self.meter()
        self.assertEqual(first.room(0), 3)
        first.noted(2)
        self.assertEqual(second.room(0), 1)
        second.noted(1)
        self.assertEqual(second.room(1), 0)
        self.assertEqual((one.paused, two.paused), (set(), {PauseReason.REQUESTS}))
        first.noted(1)
        self.clock.advance(0)
        self.assertEqual((two.paused, second.room(1)), (set(), 1))
        first.leave()
        second.leave()
        self.assertEqual((self.requests.under_way, self.clock.getDelayedCalls()), (0, []))

    def test_what_is_lost_gives_its_room_back(self) -> None:
        """Others that wait go on."""
        (_, first), (two, second) = self.meter(), self.meter()
        first.noted(3)
        second.room(0)
        self.assertTrue(two.paused)
        first.leave()
        self.clock.advance(0)
        self.assertFalse(two.paused)
        second.leave()
