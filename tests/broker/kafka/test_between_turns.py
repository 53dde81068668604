"""Requests that take several turns of the reactor: what changes between these."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from kafka.protocol.producer import ProduceRequest
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.kafka.fetches.incremental_fetches import LEAST_PARTS
from logd.broker.kafka.fetches.large_fetch import PIECE_PARTS
from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.deferreds import fair_turns
from logd.errors import ProtocolViolation
from logd.protocol import loops
from logd.protocol.kafka.fetch import read_fetch
from logd.protocol.kafka.header import MOST_PARTS
from logd.protocol.kafka.produce import read_produce
from logd.protocol.requests.fields import INT16, INT32, Reader, encode_text
from tests.broker.kafka.fetches import fetch
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase
from tests.broker.kafka.test_producing import wire

#: Parts of a request that takes several turns.
_PARTS = 1200


def _produce(parts: Iterable[tuple[int, bytes]], acks: int = -1) -> Any:
    """Return a Produce of (partition, batch)es of topic t."""
    topic = ProduceRequest.TopicProduceData
    data = [topic.PartitionProduceData(index=partition, records=records) for partition, records in parts]
    return ProduceRequest[8](
        transactional_id=None, acks=acks, timeout_ms=60_000, topic_data=[topic(name="t", partition_data=data)]
    )


def _fetch(offset: int, count: int = _PARTS, **more: Any) -> Any:
    """Return a Fetch that names one partition again and again."""
    request = fetch(("t", 0, offset), **more)
    request.topics[0].partitions *= count
    return request


class BetweenTurnsTests(KafkaTestCase):
    """Every turn is as short as can be."""

    def setUp(self) -> None:
        """Make a topic of two partitions; the directory has had its first batch, for which a Produce waits."""
        super().setUp()
        self.create("t", 2)
        self.ask(self.kafka(), _produce([(1, wire(b"first"))]))
        self.patch(fair_turns, "TURN_SECONDS", 0.0)

    def turns(self, count: int) -> None:
        """Let the reactor have some turns, without threads."""
        for _ in range(count):
            self.clock.advance(0)

    def errors(self, response: Any) -> list[int]:
        """Return the error code of each part."""
        return [part.error_code for part in response.responses[0].partition_responses]

    def test_a_log_that_may_not_grow_any_more(self) -> None:
        """It is held while the topics are looked at: none of its parts is stored before it is released."""
        peer, log = self.kafka(), self.log_of("t")
        peer.send(_produce((number // 50, wire(b"%d" % number)) for number in range(100)))
        self.assertEqual(log.end, 0, "the request had only one turn")
        self.broker.growth.hold(log)
        self.settle()
        self.assertEqual(log.end, 0)
        self.broker.growth.let_go([log])
        self.settle()
        self.assertEqual(self.errors(*peer.answers()), [0] * 100)

    def test_other_logs_that_may_not_grow(self) -> None:
        """Each part is compared with them a few times only, however many parts there are."""
        self.create("other")
        self.broker.growth.hold(self.log_of("other"))
        looked_at = []
        must_wait = StoredEndGate.must_wait

        def counted(gate: StoredEndGate, parts: Any, logs: Any) -> bool:
            looked_at.append(len(parts))
            return must_wait(gate, parts, logs)

        self.patch(StoredEndGate, "must_wait", counted)
        answer = self.ask(self.kafka(), _produce((0, wire(b"%d" % number)) for number in range(_PARTS)))
        self.assertEqual(set(self.errors(answer)), {0})
        self.assertLess(sum(looked_at), 3 * _PARTS)
        self.broker.growth.let_go_topic("other")

    def test_a_lost_connection_waits_for_no_log(self) -> None:
        """Connections would pile up for as long as the log may not grow."""
        self.broker.growth.hold(self.log_of("t"))
        for _ in range(3):
            peer = self.kafka()
            peer.send(_produce([(0, wire(b"a"))]))
            peer.lose()
        self.assertEqual(len(self.broker.growth._waiting), 0)
        self.broker.growth.let_go_topic("t")

    def test_a_stored_batch_behind_newer_ones(self) -> None:
        """A batch that is sent again in a later turn has an earlier end; the newer ones wait for their own."""
        log, peer = self.log_of("t"), self.kafka()
        stored = wire(b"0", producer=(7, 0, 0))
        self.kafka().send(_produce([(0, stored)]))
        others = [(1, wire(b"x"))] * 50
        first, second = (wire(b"%d" % number, producer=(7, 0, number)) for number in (1, 2))
        peer.send(_produce([(0, first), *others, (0, second), *others, (0, stored)]))
        for _ in range(30):
            self.reads.settle()
            self.clock.advance(0)
        self.assertTrue(self.producing(peer).waiting is None)
        self.assertLess(log.visible_end, log.end)
        (request,) = self.producing(peer).unanswered
        self.assertEqual(request._flushing[log].end, log.end)
        self.settle()
        self.assertEqual(set(self.errors(*peer.answers())), {0})

    def test_a_log_that_fails_behind_a_flush(self) -> None:
        """The parts that were flushed before are stored: the client would send them again."""
        log, peer = self.log_of("t"), self.kafka()
        peer.send(_produce((0, wire(b"%d" % number)) for number in range(100)))
        while not self.flushes.works:
            self.turns(1)
        self.flushes.work()
        self.turns(10)
        self.assertTrue(self.producing(peer).waiting is None)
        self.flushes.deliver()
        self.assertTrue(0 < log.visible_end < log.end)
        log.go_offline(OSError(5, "the disk is gone"))
        self.settle()
        errors = self.errors(*peer.answers())
        self.assertEqual([bool(each) for each in errors], [False] * 50 + [True] * 50)

    def test_large_records(self) -> None:
        """Each has a turn of its own: batches that are made of old messages take long."""
        peer, log = self.kafka(), self.log_of("t")
        peer.send(_produce((0, wire(b"%d" % number * 5000)) for number in range(4)))
        self.assertLess(log.end, 10_000)
        self.settle()
        self.assertEqual(self.errors(*peer.answers()), [0] * 4)
        stored = [each.payload or b"" for each in loops.decode_set(self.content("t")).messages]
        self.assertEqual([each[:1] for each in stored], [b"0", b"1", b"2", b"3"])

    def test_rights_that_change(self) -> None:
        """A Fetch that has begun before waits for no messages: its client might not read them any more."""
        peer, counters, waiting = self.kafka(), self.broker.counters, []
        session: Any = peer.connection.session
        before = counters.fetch_requests

        def change() -> None:
            if counters.fetch_requests == before:
                self.clock.callLater(0, change)
            else:
                waiting.append(counters.waiting_parts)
                session.rights_changed()

        peer.send(_fetch(0, wait_ms=500))
        self.clock.callLater(0, change)
        self.settle()
        self.assertEqual([*waiting, counters.waiting_parts], [0, 0])
        self.assertEqual(len(peer.answers()), 1)

    def test_rights_that_change_during_a_search(self) -> None:
        """A thread looks for the entry that contains the offset of a small Fetch."""
        peer = self.kafka()
        peer.send(fetch(("t", 1, 10), wait_ms=500, min_bytes=10_000))
        self.assertTrue(self.reads.works)
        session: Any = peer.connection.session
        session.rights_changed()
        self.settle()
        self.assertEqual(len(peer.answers()), 1)

    def test_a_lost_connection_has_no_session(self) -> None:
        """Wherever a request of a session is at the time: with all partitions, and with some that are new."""
        log = self.log_of("t", 1)
        end = log.visible_end
        parts = [("t", 1, end), *((f"u{number}", 0, 0) for number in range(LEAST_PARTS))]
        for turns in range(0, 3 * LEAST_PARTS, 7):
            peer = self.kafka()
            peer.send(fetch(*parts, epoch=0))
            self.turns(turns)
            peer.lose()
            self.settle()
            self.assertEqual((self.broker.counters.session_parts, len(log._waiters)), (0, 0), turns)
        for turns in range(0, 3 * LEAST_PARTS, 7):
            peer = self.kafka()
            peer.send(fetch(*parts, epoch=0))
            self.settle()
            (answer,) = peer.answers()
            self.assertGreater(answer.session_id, 0)
            peer.send(fetch(*(("v", number, 0) for number in range(50)), session=answer.session_id, epoch=1))
            self.turns(turns)
            peer.lose()
            self.settle()
            self.assertEqual((self.broker.counters.session_parts, len(log._waiters)), (0, 0), turns)

    def producing(self, peer: KafkaPeer) -> Any:
        """Return the produce requests of a connection."""
        session: Any = peer.connection.session
        return session._producing.native


class LargeFetchTests(KafkaTestCase):
    """Turns have their usual time here, which does not pass."""

    def test_answers_that_are_not_taken(self) -> None:
        """One of them is in memory at a time, also where it has no messages."""
        self.create("t")
        peer, before = self.kafka(), self.broker.counters.fetch_requests
        peer.transport.taking = False
        peer.send(_fetch(0, 5000), _fetch(0, 5000))
        self.settle()
        self.assertEqual(self.broker.counters.fetch_requests - before, 1)
        peer.transport.taking = True
        self.settle()
        self.assertEqual(len(peer.answers()), 2)

    def test_a_lost_connection(self) -> None:
        """The fetches behind one that waits are forgotten with it, in whatever order that is: none of them goes on."""
        self.create("t")
        before = self.broker.counters.fetch_requests
        for count in range(2, 10):
            peer = self.kafka()
            peer.send(*(fetch(("t", 0, 0), wait_ms=500) for _ in range(count)))
            self.settle()
            peer.lose()
            self.peers.remove(peer)
            del peer
            gc.collect()
            self.settle()
            self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.broker.counters.fetch_requests - before, 8)

    def test_many_forgotten_partitions(self) -> None:
        """The names of those of one request are in memory at a time, as of those to read."""
        self.create("t")
        peer, before = self.kafka(), self.broker.counters.requests
        gone = [("t", number) for number in range(PIECE_PARTS + 1)]
        peer.send(fetch(("t", 0, 0), wait_ms=500), *(fetch(session=5, epoch=1, forgotten=gone) for _ in range(3)))
        self.settle()
        self.assertEqual(self.broker.counters.requests - before, 1)
        self.clock.advance(0.5)
        self.settle()
        self.assertEqual(len(peer.answers()), 4)


class BoundTests(SynchronousTestCase):
    """The number of topics is bounded as that of partitions: each takes its time, though it has none."""

    def test_topics_without_partitions(self) -> None:
        """Of a Fetch, the forgotten ones too, and of a Produce."""
        topics = INT32.pack(MOST_PARTS + 1) + (encode_text("t") + INT32.pack(0)) * (MOST_PARTS + 1)
        fetches = INT32.pack(-1) * 4 + b"\0"
        session = INT32.pack(0) * 2
        for read, version, data in (
            (read_fetch, 4, fetches + topics),
            (read_fetch, 7, fetches + session + INT32.pack(0) + topics),
            (read_produce, 2, INT16.pack(1) + INT32.pack(0) + topics),
        ):
            with self.assertRaises(ProtocolViolation):
                list(read(Reader(data, 0, len(data)), version))
