"""Tests of requests with acks 1 or -1 and one small set, which are no objects."""

from __future__ import annotations

from logd.broker.requests import produce
from logd.broker.requests.produce_request import AcknowledgedProduceRequest
from logd.errors import NotLeader
from tests.broker.requests.producing.test_produce_ack import (
    BAD,
    HELLO,
    INVALID_MESSAGE,
    PIPELINE_BROKEN,
    SIZE,
    STALE_EPOCH,
    STOPPING,
    STORAGE_FULL,
    ProduceAckTestCase,
    ask,
    part,
    refused,
    stored,
)


class FollowingReplica:
    """A replica of a partition that another broker leads."""

    refusal = NotLeader("another broker leads it")


class LoneSetTests(ProduceAckTestCase):
    """The answers are those of requests with an object."""

    def setUp(self) -> None:
        """Note the requests that are made an object."""
        super().setUp()
        self.objects: list[AcknowledgedProduceRequest] = []

        def noted(*arguments: object) -> AcknowledgedProduceRequest:
            self.objects.append(AcknowledgedProduceRequest(*arguments))  # type: ignore[arg-type]
            return self.objects[-1]

        self.patch(produce, "AcknowledgedProduceRequest", noted)

    def test_only_what_is_unusual_has_an_object(self) -> None:
        """The places are right among requests of both kinds, and each is in the metrics."""
        latency = self.broker.counters.latencies.of("native", "ProduceAck")
        before = sum(latency.counts)
        self.peer.send(ask(1, part()), ask(1, part(HELLO * 2)), ask(1, part(partition=2)), ask(1, part()))
        self.answers(stored(0, SIZE), stored(SIZE, 3 * SIZE), stored(3 * SIZE, 4 * SIZE), stored(0, SIZE, 2))
        self.peer.send(ask(1, part()), ask(-1, part()), ask(-1, part(partition=1)), ask(1, part()))
        self.answers(stored(4 * SIZE, 5 * SIZE), stored(6 * SIZE, 7 * SIZE))
        self.settle()
        self.answers(stored(0, SIZE, 1), stored(5 * SIZE, 6 * SIZE))
        self.assertEqual(self.objects, [])
        self.peer.send(ask(-1, part(), part()), ask(1, part(partition=-1)), ask(-1, part(epoch=3)))
        self.settle()
        self.assertEqual(len(self.objects), 3)
        self.assertEqual({each.parts[0].error for each in self.peer.answers()}, {0, STALE_EPOCH})
        self.assertEqual(sum(latency.counts), before + 11)

    def test_all_that_wait_for_a_flush_share_a_timer(self) -> None:
        """One for each would be a tenth of the work; it ends with the connection."""
        before = len(self.clock.getDelayedCalls())
        self.peer.send(*[ask(-1, part())] * 5, ask(-1, part(), part(partition=1)))
        self.assertEqual(len(self.clock.getDelayedCalls()), before + 1)
        self.peer.lose()
        self.assertEqual(len(self.clock.getDelayedCalls()), before)
        self.settle()
        self.assertEqual(self.content("t"), HELLO * 6)

    def test_a_refused_set_breaks_the_order_until_a_restart(self) -> None:
        """It is unsound, or the disk is full."""
        self.peer.send(ask(1, part(BAD)), ask(1, part()))
        self.answers(refused(INVALID_MESSAGE), refused(PIPELINE_BROKEN))
        self.peer.send(ask(1, part(restart=True)), ask(1, part()))
        self.answers(stored(0, SIZE), stored(SIZE, 2 * SIZE))
        self.files.room = 3
        self.peer.send(ask(1, part()))
        self.files.room = None
        self.peer.send(ask(1, part()))
        self.answers(refused(STORAGE_FULL), refused(PIPELINE_BROKEN))
        self.assertEqual(self.content("t"), HELLO * 2)
        self.assertEqual(
            self.broker.counters.refused_by_error, {"InvalidMessage": 1, "PipelineBroken": 2, "StorageFull": 1}
        )

    def test_a_replica_that_follows_takes_none(self) -> None:
        """Its sets come from its leader."""
        log = self.log_of("t")
        log.replica = FollowingReplica()  # type: ignore[assignment]
        self.peer.send(ask(1, part()))
        (answer,) = self.peer.answers()
        self.assertEqual(answer.parts[0].error, NotLeader.code)
        self.assertEqual(self.content("t"), b"")

    def test_a_broker_that_stops_takes_none(self) -> None:
        """As with other acks."""
        self.broker.stop()
        self.peer.send(ask(1, part()))
        self.answers(refused(STOPPING))
