"""Tests of quotas at a broker: what holds its connections, what it refuses, and that a change holds at once."""

from __future__ import annotations

from logd.config.security import SecuritySettings
from logd.errors import QuotaExceeded
from logd.net.limits.read_sizes import FEW_BYTES
from logd.net.limits.traffic_quotas import SMALL_BYTES
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.metadata import Metadata
from tests.broker.rig import Peer
from tests.broker.security.quota_rig import LARGE, QuotaTestCase


class ByteQuotaTests(QuotaTestCase):
    """Bytes a second."""

    def test_a_producer_is_not_read_until_it_has_paid(self) -> None:
        """All its messages arrive in the end, none is refused, and another user is not held."""
        self.set_quota("noisy", bytes_in=100_000)
        noisy, quiet = self.connect_as("noisy"), self.connect_as("quiet")
        for _ in range(40):
            self.send_large(noisy)
        self.assertFalse(noisy.reading)
        for _ in range(40):
            self.send_large(quiet)
        self.assertEqual((len(quiet.answers()), quiet.reading), (40, True))
        answers = noisy.answers()
        self.assertLess(len(answers), 4)
        for _ in range(20):
            self.pass_time(1)
            answers += noisy.answers()
        self.assertEqual([answer.parts[0].error for answer in answers], [0] * 40)

    def test_connections_of_one_user_share_its_quota(self) -> None:
        """A second connection brings nothing."""
        self.set_quota("noisy", bytes_in=100_000)
        one, two = self.connect_as("noisy"), self.connect_as("noisy")
        for peer in (one, one, one, two):
            self.send_large(peer)
        self.assertEqual((one.reading, two.reading), (False, False))
        two.lose()
        again = self.connect_as("noisy")
        self.send_large(again)
        self.assertFalse(again.reading)

    def test_a_debt_outlives_the_connection(self) -> None:
        """A client that connects again begins where it ended."""
        self.set_quota("noisy", bytes_in=100_000)
        one = self.connect_as("noisy")
        for _ in range(6):
            self.send_large(one)
        one.lose()
        self.settle()
        again = self.connect_as("noisy")
        self.send_large(again)
        self.assertFalse(again.reading)

    def test_a_consumer_is_held_after_its_answer(self) -> None:
        """Its next fetch waits; what was asked for is sent whole."""
        self.send_large(self.connect())
        self.set_quota("greedy", bytes_out=20_000)
        peer = self.connect_as("greedy")
        fetch = FetchWait(0, 1, 100_000, (FetchPart("t", 0, 0, 0, 100_000, True),))
        peer.send(fetch)
        self.settle()
        self.assertEqual(len(peer.answers()[0].parts[0].message_set), len(LARGE))
        self.assertFalse(peer.reading)
        peer.send(fetch._replace(correlation_id=2))
        self.pass_time(1)
        self.assertEqual(peer.answers(), [])
        self.pass_time(1)
        self.assertEqual(len(peer.answers()), 1)

    def test_fetches_that_are_sent_together_are_answered_one_by_one(self) -> None:
        """On one connection or many: what waits is bounded by one answer; other questions are answered meanwhile."""
        self.send_large(self.connect())
        self.set_quota("greedy", bytes_out=40_000)
        fetch = FetchWait(0, 1, 100_000, (FetchPart("t", 0, 0, 0, 100_000, True),))
        peers = [self.connect_as("greedy") for _ in range(5)]
        for peer in peers:
            peer.send(*(fetch._replace(correlation_id=number) for number in range(10)))
        self.settle()
        self.assertEqual([len(peer.answers()) for peer in peers], [1, 0, 0, 0, 0])
        quiet = self.connect_as("greedy")
        answered = []
        for _ in range(60):
            self.pass_time(1.3)
            answered.append(sum(len(peer.answers()) for peer in peers))
        self.assertEqual((max(answered), sum(answered)), (1, 49))
        self.assertTrue(quiet.reading)

    def test_a_new_connection_of_a_user_in_debt_is_held_at_once(self) -> None:
        """Hanging up and calling again brings nothing, whatever is sent first."""
        self.set_quota("noisy", bytes_in=10_000)
        self.send_large(self.connect_as("noisy"))
        for _ in range(20):
            again = self.connect_as("noisy")
            self.assertFalse(again.reading)
            again.lose()
        self.assertEqual(self.connect_as("quiet").reading, True)

    def test_the_anonymous_in_debt_begin_with_little(self) -> None:
        """They may have to authenticate, so they are read; but by small pieces."""
        self.set_quota("anonymous", bytes_in=10_000)
        self.send_large(self.connect())
        again = self.connect()
        self.assertEqual((again.reading, vars(again.transport)["bufferSize"]), (True, SMALL_BYTES))
        session = self.session_of(again)
        session.requester.principal, session.requester.authenticated = "alice", True
        self.broker.quotas.authenticated(session)
        self.assertEqual((again.reading, vars(again.transport)["bufferSize"]), (True, FEW_BYTES))

    def test_a_change_holds_for_open_connections(self) -> None:
        """A new quota, a higher one, and none any more."""
        peer = self.connect_as("alice")
        self.assertIsNone(peer.connection.meter)
        self.set_quota("alice", bytes_in=10_000)
        self.send_large(peer)
        self.assertFalse(peer.reading)
        self.set_quota("alice", bytes_in=1_000_000)
        self.pass_time(0.1)
        self.assertTrue(peer.reading)
        self.set_quota("alice", bytes_in=10_000)
        self.send_large(peer)
        self.assertFalse(peer.reading)
        self.set_quota("alice")
        self.settle()
        self.assertEqual((peer.reading, peer.connection.meter), (True, None))
        self.assertEqual(self.broker.quotas.usages, {})

    def test_the_quota_of_all_holds_for_each_by_itself(self) -> None:
        """The debt of one user is not another's; brokers have none."""
        self.set_quota("*", bytes_in=10_000)
        alice, bob, broker = self.connect_as("alice"), self.connect_as("bob"), self.connect_as("logd-broker")
        self.send_large(alice)
        self.assertEqual((alice.reading, bob.reading, broker.connection.meter), (False, True, None))

    def test_many_users_leave_nothing_behind(self) -> None:
        """Users that have paid are forgotten."""
        self.set_quota("*", bytes_in=1000_000)
        for number in range(1500):
            peer = self.connect_as(f"user{number}")
            peer.send(Metadata(()))
            peer.lose()
            self.clock.advance(0.01)
        self.assertLess(len(self.broker.quotas.usages), 1100)

    def test_a_held_client_is_not_idle_and_a_stop_does_not_wait_for_it(self) -> None:
        """The stop of the broker answers and closes it as any other."""
        self.set_quota("noisy", bytes_in=10_000)
        peer = self.connect_as("noisy")
        for _ in range(10):
            self.send_large(peer)
        self.assertFalse(peer.reading)
        stopping, self.running = self.assembly.stop(), False
        for _ in range(4):
            self.pass_time(0.03)
        self.assertTrue(self.successResultOf(stopping).clean)


class IdleTests(QuotaTestCase):
    """Connections that send nothing."""

    options = {"idle_ms": 10_000}  # noqa: RUF012

    def test_a_held_connection_is_cut_for_idleness_only_once_it_is_read_again(self) -> None:
        """While it is not read it cannot send; the time begins anew after that."""
        self.set_quota("noisy", bytes_in=1000)
        peer = self.connect_as("noisy")
        self.send_large(peer)
        for _ in range(4):
            self.pass_time(10)
        self.assertFalse(peer.lost)
        for _ in range(4):
            self.pass_time(10)
        self.assertTrue(peer.lost)


class RequestAndConnectionQuotaTests(QuotaTestCase):
    """Requests under way, of users and of addresses, and connections."""

    options = {"security": SecuritySettings(requests_address_max=4)}  # noqa: RUF012

    def fetch(self, peer: Peer) -> None:
        """Send a fetch that waits."""
        peer.send(FetchWait(30_000, 1, 1000, (FetchPart("t", 0, 0, 0, 1000, True),)))
        self.settle()

    def test_the_request_that_is_one_too_many_waits(self) -> None:
        """It is taken once another one is answered, also when that is on another connection."""
        self.set_quota("alice", requests=2)
        one, two = self.connect_as("alice"), self.connect_as("alice")
        self.fetch(one)
        self.fetch(one)
        two.send(Metadata(()))
        self.settle()
        self.assertEqual((two.answers(), two.reading), ([], False))
        self.send_large(self.connect_as("bob", "10.0.0.8"))
        self.settle()
        self.assertEqual((len(one.answers()), len(two.answers())), (2, 1))

    def test_an_address_has_a_limit_whoever_calls(self) -> None:
        """Four requests of different users; the fifth waits, one from elsewhere does not."""
        for user in ("a", "b", "c", "d"):
            self.fetch(self.connect_as(user))
        fifth, elsewhere = self.connect_as("e"), self.connect_as("e", "10.0.0.8")
        for peer in (fifth, elsewhere):
            peer.send(Metadata(()))
        self.settle()
        self.assertEqual((len(fifth.answers()), len(elsewhere.answers())), (0, 1))
        self.peers[0].lose()
        self.settle()
        self.assertEqual(len(fifth.answers()), 1)

    def test_a_user_may_have_so_many_connections(self) -> None:
        """One more is refused as it authenticates, and open ones stay when fewer are allowed."""
        self.set_quota("alice", connections=2)
        one, _ = self.connect_as("alice"), self.connect_as("alice")
        error = self.assertRaises(QuotaExceeded, self.connect_as, "alice")
        self.assertIn("connections = 2", str(error))
        one.lose()
        self.connect_as("alice")
        self.set_quota("alice", connections=1)
        self.assertRaises(QuotaExceeded, self.connect_as, "alice")
