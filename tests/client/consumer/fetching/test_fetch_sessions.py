"""Tests of consumers with fetch sessions, with real brokers in memory, and the loss of all that a session needs."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.requests import fetch_session_requests
from logd.broker.requests.session import BrokerSession
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.partition_fetch import DamagedEntry, FetchState
from logd.errors import LogdError
from logd.protocol.message import Message
from logd.protocol.requests.fetch_session import FetchWaitV1
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.requests import decode_request
from logd.testing.memory.cluster import MemoryCluster
from logd.testing.memory.transport import MemoryTransport

#: Partitions of the topics: few, as ``session_partitions`` is 0.
PARTITIONS = 12


class SessionRig:
    """A cluster with a topic and a consumer that keeps fetch sessions; notes each fetch that a broker receives."""

    def __init__(self, test: SynchronousTestCase, *, brokers: int = 1, **settings: Any) -> None:
        self.cluster = MemoryCluster(brokers=brokers)
        self.cluster.wait(self.cluster.start())
        test.addCleanup(lambda: self.cluster.wait(self.cluster.stop()))
        self.ports = {port for _, port in self.cluster.addresses}
        self.fetches: list[FetchWaitV1 | FetchWait] = []
        self.cluster.network.observe = self._observe
        self.admin = self.cluster.admin()
        self.cluster.wait(self.admin.create("t", PARTITIONS))
        self.producer = self.cluster.producer()
        self.got: list[Message] = []
        given: dict[str, Any] = {"start": "earliest", "session_partitions": 0, **settings}
        self.consumer: Consumer = self.cluster.consumer(**given)
        (self.stream,) = self.consumer.create_message_streams("t", 1)
        self.failures: list[BaseException] = []
        Deferred.fromCoroutine(self._read())
        self.cluster.advance(2.0)

    def _observe(self, source: MemoryTransport, target: MemoryTransport, data: bytes) -> None:
        if target.getHost().port not in self.ports or source.getHost().host != "client":
            return
        at = 0
        while at + 4 <= len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            request = decode_request(data, at + 4, at + 4 + size)
            if isinstance(request, (FetchWaitV1, FetchWait)):
                self.fetches.append(request)
            at += 4 + size

    async def _read(self) -> None:
        try:
            async for message in self.stream:
                self.got.append(message)
        except LogdError as error:
            self.failures.append(error)

    def put(self, *partitions: int, payload: bytes = b"x") -> None:
        """Send a message to each of the partitions, and let time pass until it was read."""
        for partition in partitions:
            self.cluster.wait(self.producer.send("t", payload, partition=partition))
        self.cluster.advance(1.0)

    def taken(self) -> list[int]:
        """Return the partitions of the messages read since the last call."""
        taken, self.got = self.got, []
        return sorted(message.partition for message in taken)

    def sessions(self) -> set[bool]:
        """Return whether the fetches since the last call were those of sessions; empties the notes."""
        fetches, self.fetches = self.fetches, []
        return {isinstance(fetch, FetchWaitV1) for fetch in fetches}


class SessionTests(SynchronousTestCase):
    """The requests of a consumer, and the messages that it delivers."""

    def test_a_request_names_only_what_has_changed(self) -> None:
        """After the beginning, all requests together name a partition once for each of its messages."""
        rig = SessionRig(self)
        (first, *_) = rig.fetches
        assert isinstance(first, FetchWaitV1)
        self.assertEqual((first.epoch, len(first.new)), (0, PARTITIONS))
        rig.fetches.clear()
        for _ in range(3):
            rig.put(4, 7)
        self.assertEqual(rig.taken(), [4, 4, 4, 7, 7, 7])
        later = [fetch for fetch in rig.fetches if isinstance(fetch, FetchWaitV1)]
        self.assertEqual(len(later), len(rig.fetches))
        self.assertEqual(sum(len(fetch.new) for fetch in later), 0)
        self.assertEqual(sum(len(fetch.moved) for fetch in later), 6)

    def test_idle_partitions_are_in_no_request(self) -> None:
        """While nothing moves there is one empty request for each ``max_wait``."""
        rig = SessionRig(self, max_wait=0.5)
        rig.fetches.clear()
        rig.cluster.advance(10.0)
        self.assertLessEqual(len(rig.fetches), 20)
        for fetch in rig.fetches:
            assert isinstance(fetch, FetchWaitV1)
            self.assertEqual((fetch.new, fetch.moved, fetch.forgotten), ((), (), ()))

    def test_a_consumer_that_does_not_wait_asks_at_a_bounded_rate(self) -> None:
        """With a ``max_wait`` of 0, empty answers are not followed by the next request at once."""
        rig = SessionRig(self, max_wait=0.0)
        rig.fetches.clear()
        rig.cluster.advance(1.0)
        self.assertLessEqual(len(rig.fetches), 11)

    def test_few_partitions_are_fetched_without(self) -> None:
        """The setting says how many are few."""
        rig = SessionRig(self, session_partitions=PARTITIONS)
        rig.put(1)
        self.assertEqual((rig.taken(), rig.sessions()), ([1], {False}))

    def test_logs_longer_than_a_fetch_come_whole_and_in_order(self) -> None:
        """Pieces smaller than messages, and memory for a few of them, lose and repeat nothing."""
        rig = SessionRig(self, prefetch_bytes=4096, fetch_bytes=256)
        for number in range(30):
            for partition in range(PARTITIONS):
                rig.producer.send("t", b"%d" % number * (number * 20 + 1), partition=partition)
        rig.cluster.wait(rig.producer.flush())
        rig.cluster.advance(20.0)
        wanted = [b"%d" % number * (number * 20 + 1) for number in range(30)]
        for partition in range(PARTITIONS):
            self.assertEqual([each.payload for each in rig.got if each.partition == partition], wanted)

    def test_a_seek_voids_the_fetch_that_waits(self) -> None:
        """The partition is read again from there, and from there alone."""
        rig = SessionRig(self)
        rig.put(3, 3, 3)
        self.assertEqual(rig.taken(), [3, 3, 3])
        rig.stream.seek(3, 0)
        rig.cluster.advance(1.0)
        self.assertEqual(rig.taken(), [3, 3, 3])
        rig.put(3)
        self.assertEqual(rig.taken(), [3])

    def test_a_paused_partition_goes_on_where_it_was(self) -> None:
        """The others are delivered meanwhile."""
        rig = SessionRig(self)
        rig.stream.pause(5)
        rig.put(5, 6)
        self.assertEqual(rig.taken(), [6])
        rig.stream.resume(5)
        rig.put(6)
        self.assertEqual(rig.taken(), [5, 6])

    def test_damage_is_passed_while_the_log_is_idle(self) -> None:
        """The fetch that waits at the broker does not keep the consumer from searching for the entry behind."""
        rig = SessionRig(self)
        rig.put(2, 2)
        self.assertEqual(rig.taken(), [2, 2])
        fetch = rig.stream.state._fetches["t", 2]
        fetch._damage = DamagedEntry(0, "a length of a million")
        rig.consumer._state.fetcher.wake(fetch)
        rig.cluster.advance(1.0)
        self.assertIs(fetch.state, FetchState.FETCHING)
        self.assertEqual(fetch.losses.skipped, 1)

    def test_removed_partitions_are_forgotten(self) -> None:
        """The broker is told, and nothing waits there any more."""
        rig = SessionRig(self)
        rig.fetches.clear()
        rig.stream.state.close()
        rig.cluster.advance(1.0)
        forgotten = [number for fetch in rig.fetches if isinstance(fetch, FetchWaitV1) for number in fetch.forgotten]
        self.assertEqual(sorted(forgotten), list(range(PARTITIONS)))


class SessionLossTests(SynchronousTestCase):
    """The end of a session, for every reason that there is."""

    def test_a_lost_connection(self) -> None:
        """Another session begins on the next one, and no message is lost or repeated."""
        rig = SessionRig(self)
        rig.put(1, 2)
        for wire in tuple(rig.cluster.network.wires):
            rig.cluster.network.cut(wire)
        rig.fetches.clear()
        rig.cluster.advance(5.0)
        rig.put(2, 3)
        self.assertEqual(rig.taken(), [1, 2, 2, 3])
        self.assertIn(0, [fetch.epoch for fetch in rig.fetches if isinstance(fetch, FetchWaitV1)])

    def test_a_broker_that_starts_again(self) -> None:
        """It knows no session, and gets all partitions anew."""
        rig = SessionRig(self)
        rig.put(1, 2)
        rig.cluster.brokers[0].kill()
        rig.cluster.advance(3.0)
        rig.cluster.brokers[0].start()
        rig.cluster.advance(20.0)
        rig.put(1, 8)
        self.assertEqual(rig.taken(), [1, 1, 2, 8])
        self.assertEqual(rig.sessions(), {True})

    def test_a_broker_that_has_dropped_the_session(self) -> None:
        """The consumer begins another one on the same connection."""
        rig = SessionRig(self)
        rig.put(1)
        for session in rig.cluster.brokers[0].broker.sessions:  # type: ignore[union-attr]  # it runs
            assert isinstance(session, BrokerSession)
            for number in tuple(session._fetch_sessions._sessions):
                session._fetch_sessions._end(number)
        rig.fetches.clear()
        rig.put(1, 2)
        self.assertEqual(rig.taken(), [1, 1, 2])
        self.assertIn(PARTITIONS, [len(fetch.new) for fetch in rig.fetches if isinstance(fetch, FetchWaitV1)])

    def test_a_broker_that_keeps_no_session(self) -> None:
        """The partitions are fetched without, after one refusal."""
        self.patch(fetch_session_requests, "MOST_SESSIONS", 0)
        rig = SessionRig(self)
        rig.put(1, 2)
        self.assertEqual(rig.taken(), [1, 2])
        self.assertEqual(sum(isinstance(fetch, FetchWaitV1) for fetch in rig.fetches), 1)

    def test_partitions_that_idle_follow_the_metadata(self) -> None:
        """No answer brings them up: metadata that names another leader takes them out of the session."""
        rig = SessionRig(self, brokers=2, metadata_age=5.0)
        cluster = rig.consumer._state.cluster
        leader = cluster.leader
        moved = [number for number in range(PARTITIONS) if leader("t", number) is leader("t", 0)]
        other = next(leader("t", number) for number in range(PARTITIONS) if number not in moved)
        self.patch(cluster, "leader", lambda topic, number: other if number == 0 else leader(topic, number))
        rig.fetches.clear()
        rig.cluster.advance(12.0)
        sessions = [fetch for fetch in rig.fetches if isinstance(fetch, FetchWaitV1)]
        self.assertIn((0,), [tuple(part.partition for part in fetch.new) for fetch in sessions])
        self.assertEqual(sum(len(fetch.forgotten) > 0 for fetch in sessions), 1)

    def test_a_topic_made_again(self) -> None:
        """The positions were those of another log: reading begins at the new one's start."""
        rig = SessionRig(self)
        rig.put(1, 1)
        self.assertEqual(rig.taken(), [1, 1])
        rig.cluster.wait(rig.admin.delete("t"))
        rig.cluster.advance(1.0)
        rig.cluster.wait(rig.admin.create("t", PARTITIONS))
        rig.put(1)
        rig.cluster.advance(10.0)
        self.assertEqual(rig.taken(), [1])

    def test_two_brokers_and_one_of_them_lost(self) -> None:
        """The other's session goes on."""
        rig = SessionRig(self, brokers=2)
        rig.put(*range(PARTITIONS))
        self.assertEqual(rig.taken(), list(range(PARTITIONS)))
        rig.cluster.brokers[1].kill()
        rig.cluster.advance(1.0)
        view = rig.cluster.wait(rig.admin.describe("t"))
        mine = [each.partition for each in view.partitions if each.leader == rig.cluster.brokers[0].settings.id]
        self.assertTrue(mine)
        rig.put(*mine)
        self.assertEqual(rig.taken(), mine)
        rig.cluster.brokers[1].start()
        rig.cluster.advance(20.0)
        rig.put(*range(PARTITIONS))
        self.assertEqual(rig.taken(), list(range(PARTITIONS)))

    def test_a_consumer_that_stops_reading_holds_bounded_memory(self) -> None:
        """However much arrives, no more is held and asked for than the setting allows."""
        rig = SessionRig(self, prefetch_bytes=16_384, fetch_bytes=4096)
        for partition in range(PARTITIONS):
            rig.stream.pause(partition)
        for _ in range(20):
            rig.put(*range(PARTITIONS), payload=bytes(500))
        held = sum(fetch.claimed for fetch in rig.stream.state._fetches.values())
        self.assertLessEqual(held, 16_384 + 256 * PARTITIONS)
        for partition in range(PARTITIONS):
            rig.stream.resume(partition)
        rig.cluster.advance(10.0)
        self.assertEqual(len(rig.got), 20 * PARTITIONS)
        self.assertEqual(rig.failures, [])
