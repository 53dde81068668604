"""Tests of the bytes that one replica gives another: from in-sync ones alone, visible, sound, and checked again."""

from __future__ import annotations

from typing import Any
from unittest import mock

from attrs import evolve

from logd.broker.replication.healing.read_requests import ReplicaReads
from logd.coord.registries.partition_states import KnownState
from logd.errors import InvalidMessage, InvalidRequest, NotLeader, OffsetOutOfRange, StaleLeaderEpoch, WrongPartition
from logd.log.epochs.mark import MARK_BYTES
from logd.protocol.requests import requests
from logd.protocol.requests.apis import NATIVE_BY_NUMBER
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadResponse, ReplicaReadV1
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.healing.test_healing import DamagedReplicaTestCase


class ReplicaReadTests(DamagedReplicaTestCase):
    """ReplicaRead, as a broker answers it."""

    def ask(self, broker: MemoryBroker, position: int, length: int = 1 << 20, **changes: Any) -> Any:
        """Send a request to a broker, and return its answer."""
        request = ReplicaReadV1("t", self.uuid, 0, self.epoch, position, length)._replace(**changes)
        return self.answer(broker, request)

    def answer(self, broker: MemoryBroker, request: ReplicaRead | ReplicaReadV1) -> Any:
        """Return a broker's answer to a request."""
        connection = self.cluster.wait(self.cluster.connect(broker.address))
        answer = self.cluster.wait(connection.request(request))
        connection.abort()
        return answer

    @property
    def uuid(self) -> str:
        """The topic's uuid."""
        assert self.leader.broker is not None
        entry = self.leader.broker.topics.get("t")
        assert entry is not None
        return entry.uuid

    @property
    def epoch(self) -> int:
        """The leader epoch."""
        return self.log(self.leader).leadership.epoch

    def took(self, broker: MemoryBroker, **changes: Any) -> None:
        """Let a broker know another state of the partition."""
        assert broker.broker is not None
        states = broker.broker.replication.states
        known = states.get("t", 0)
        assert known is not None
        states.took("t", 0, KnownState(evolve(known.state, **changes), known.version + 1, known.uuid))

    def test_whole_entries_are_given(self) -> None:
        """Up to the end of the segment, or as many as fit, but at least one."""
        follower = self.followers[0]
        log = self.log(follower)
        start, end = log.segment_list.starts[1:3]
        data = bytes(self.inode(follower, 1).data)
        self.assertEqual(self.ask(follower, start), ReplicaReadResponse(0, start, data))
        self.assertEqual(self.ask(self.leader, start), ReplicaReadResponse(0, start, data))
        first = bytes(self.ask(follower, start, 1).message_set)
        self.assertLess(0, len(first))
        self.assertLess(len(first), end - start)
        self.assertTrue(data.startswith(first))
        more = self.ask(follower, start, len(first) + 5)
        self.assertEqual(bytes(more.message_set), first)

    def test_a_replica_that_is_not_in_sync_gives_nothing(self) -> None:
        """It may have other bytes than the leaders since; so may a disk that the state does not name."""
        follower = self.followers[0]
        start = self.log(follower).segment_list.starts[1]
        number = follower.settings.id
        assert follower.broker is not None and number is not None
        known = follower.broker.replication.states.get("t", 0)
        assert known is not None
        others = tuple(each for each in known.state.in_sync if each != number)
        for changes in (
            {"in_sync": others},
            {"instances": {**known.state.instances, number: "another"}},
        ):
            self.took(follower, **{"in_sync": known.state.in_sync, "instances": known.state.instances, **changes})
            answer = self.ask(follower, start)
            self.assertEqual((answer.error, bytes(answer.message_set)), (NotLeader.code, b""))

    def test_nothing_is_given_in_another_epoch(self) -> None:
        """The broker that asks knows less than this one, or more."""
        start = self.log(self.leader).segment_list.starts[1]
        for epoch in (self.epoch - 1, self.epoch + 1):
            self.assertEqual(self.ask(self.leader, start, leader_epoch=epoch).error, StaleLeaderEpoch.code)

    def test_nothing_is_given_of_another_topic(self) -> None:
        """Brokers of earlier releases, which do not tell the topic's uuid, are answered as before."""
        follower = self.followers[0]
        start = self.log(follower).segment_list.starts[1]
        answer = self.ask(follower, start, uuid="another")
        self.assertEqual((answer.error, bytes(answer.message_set)), (StaleLeaderEpoch.code, b""))
        answer = self.answer(follower, ReplicaRead("t", 0, self.epoch, start, 1 << 20))
        self.assertEqual(answer, self.ask(follower, start))

    def test_what_is_not_visible_is_not_given(self) -> None:
        """It may be truncated, and another leader may put other messages there."""
        other = self.followers[1]
        assert other.clock is not None
        other.clock.pause()
        sent = self.send(b"unseen by readers", acks=1)
        self.cluster.advance(0.3)
        log = self.log(self.followers[0])
        self.assertEqual(log.flushed_end, sent.next_position)
        for broker in (self.leader, self.followers[0]):
            answer = self.ask(broker, sent.first_id)
            self.assertEqual((answer.error, bytes(answer.message_set)), (OffsetOutOfRange.code, b""))
        other.clock.resume()

    def test_a_position_inside_an_entry_is_refused(self) -> None:
        """Entries are compared at their boundaries."""
        start = self.log(self.leader).segment_list.starts[1]
        self.assertEqual(self.ask(self.leader, start + 1).error, InvalidRequest.code)
        self.assertEqual(self.ask(self.leader, -1).error, OffsetOutOfRange.code)
        self.assertEqual(self.ask(self.leader, 1 << 60).error, OffsetOutOfRange.code)
        self.assertEqual(self.ask(self.leader, start, partition=7).error, WrongPartition.code)

    def test_damage_is_not_given_and_is_healed(self) -> None:
        """The replica that is asked has learned of its own damage."""
        follower = self.followers[0]
        start = self.log(follower).segment_list.starts[1]
        self.healing(follower).verifier.stop()
        sound = self.flip(follower, 1, 20)
        answer = self.ask(follower, start)
        self.assertEqual((answer.error, bytes(answer.message_set)), (InvalidMessage.code, b""))
        self.cluster.advance(1.0)
        self.assertEqual(bytes(self.inode(follower, 1).data), sound)


class ReaderTests(DamagedReplicaTestCase):
    """The answers to readers that meet damage."""

    def test_it_comes_again_while_that_is_being_healed(self) -> None:
        """Not where nobody has the bytes, and not if the segment is sound: then it passes over."""
        leader = self.leader
        healing, log = self.healing(leader), self.log(leader)
        healing.verifier.stop()
        start = log.segment_list.starts[1]
        self.assertTrue(healing.may_heal(log, start))  # it is looked at
        self.cluster.advance(0.5)
        self.assertFalse(healing.may_heal(log, start))  # it is sound
        sound = self.flip(leader, 2)
        position = log.segment_list.starts[2] + 5
        self.assertTrue(healing.may_heal(log, position))
        self.cluster.advance(5.0)
        self.assertEqual(bytes(self.inode(leader, 2).data), sound)
        for follower in self.followers:
            follower.kill()
        self.cluster.advance(7.0)
        leader = self.leader
        healing, log = self.healing(leader), self.log(leader)
        healing.verifier.stop()
        self.flip(leader, 3)
        self.assertTrue(healing.may_heal(log, log.segment_list.starts[3]))
        self.cluster.advance(2.0)
        self.assertFalse(healing.may_heal(log, log.segment_list.starts[3]))


class CheckedBytesTests(DamagedReplicaTestCase):
    """The use of the answers by a healing replica."""

    def answered_with(self, change: Any) -> Any:
        """Let all replicas answer with other bytes: ``change(data)``."""
        read = ReplicaReads._read

        async def changed(reads: ReplicaReads, request: ReplicaReadV1) -> bytes:
            return bytes(change(await read(reads, request)))

        return mock.patch.object(ReplicaReads, "_read", changed)

    def test_altered_bytes_are_not_taken(self) -> None:
        """Neither with another checksum, nor sound ones that end elsewhere; the file stays as it is."""

        def altered(data: bytes) -> bytes:
            return data[:-1] + bytes([data[-1] ^ 1])

        for change in (altered, lambda data: data[:-1], lambda data: data + data, lambda data: b""):
            broker = self.followers[0]
            sound = self.flip(broker, 1)
            harmed = bytes(self.inode(broker, 1).data)
            with self.answered_with(change):
                self.cluster.advance(3.0)
                self.assertEqual(bytes(self.inode(broker, 1).data), harmed, "bytes were taken that are not sound")
            self.cluster.advance(65.0)
            self.assertEqual(bytes(self.inode(broker, 1).data), sound)

    def test_bytes_of_an_earlier_release(self) -> None:
        """It refuses to be told uuids, and is asked without them."""
        known = {key: api for key, api in NATIVE_BY_NUMBER.items() if api.request is not ReplicaReadV1}
        broker = self.followers[0]
        sound = self.flip(broker, 1)
        with mock.patch.object(requests, "NATIVE_BY_NUMBER", known):
            self.cluster.advance(3.0)
        self.assertEqual(bytes(self.inode(broker, 1).data), sound)

    def test_a_source_that_leaves_the_in_sync_set_does_not_count(self) -> None:
        """Its answer of that time is not used."""
        broker = self.followers[0]
        assert broker.broker is not None
        kind = type(broker.broker.replication)
        sources, read, left = kind.healing_sources, ReplicaReads._read, list[int]()

        async def leaving(reads: ReplicaReads, request: ReplicaReadV1) -> bytes:
            data = await read(reads, request)
            left.append(reads._manager.store.broker_id)
            return data

        def staying(manager: Any, topic: str, partition: int) -> tuple[int, ...]:
            return tuple(each for each in sources(manager, topic, partition) if each not in left)

        self.flip(broker, 1)
        harmed = bytes(self.inode(broker, 1).data)
        with mock.patch.object(ReplicaReads, "_read", leaving), mock.patch.object(kind, "healing_sources", staying):
            self.cluster.advance(3.0)
        self.assertEqual(len(left), 2)
        self.assertEqual(bytes(self.inode(broker, 1).data), harmed)


class MadeAgainTests(DamagedReplicaTestCase):
    """A topic that was deleted, and made again under its name, with messages of the same lengths."""

    def setUp(self) -> None:
        """Make it again while one broker hears of nothing that happens in the tree, and another one late."""
        super().setUp()
        leader, (self.damaged, self.late) = self.leader, self.followers
        self.slow(self.late, 2.4)
        assert leader.broker is not None
        entry = leader.broker.topics.get("t")
        assert entry is not None
        administration = leader.broker.administration
        self.cluster.wait(administration.delete("t"))
        self.cluster.wait(administration.create("t", 1, {}, brokers=dict(entry.partitions)))
        self.cluster.advance(0.2)
        self.slow(self.damaged, 2.0)
        for number in range(10):
            self.send(b"another %02d " % number + b"x" * 40)
        self.cluster.advance(0.1)

    def slow(self, broker: MemoryBroker, seconds: float) -> None:
        """Let a broker hear of all changes of the tree so much later."""
        assert broker.coordination is not None
        broker.coordination.link.delay = lambda: seconds

    def test_bytes_of_the_former_topic_are_not_taken(self) -> None:
        """They are sound, and entries begin and end in the same places; no epoch has passed."""
        self.assertIn(b"message 00", self.inode(self.late, 0).data)
        for broker in (self.leader, self.damaged):
            self.healing(broker).verifier.stop()
            self.flip(broker, 0, MARK_BYTES + 20)
        self.healing(self.damaged).suspect(self.log(self.damaged), MARK_BYTES)
        self.cluster.advance(0.5)
        self.assertIn(b"another 01", self.inode(self.damaged, 0).data)
        self.assertNotIn(b"message", self.inode(self.damaged, 0).data)
