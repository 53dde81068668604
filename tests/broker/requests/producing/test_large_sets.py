"""Tests of message sets that take a while to check: others are served meanwhile, and nothing comes out of order."""

from __future__ import annotations

from logd.broker.requests.sliced_checks import AT_ONCE_BYTES, SLICE_ENTRIES
from logd.errors import InvalidMessage, MessageTooLarge, PipelineBroken
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_requests import MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import OffsetsResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.doubles import BrokerTestCase, Peer

SMALL = MessageSet([Message(b"small")]).encode()
#: Some slices.
COUNT = 5 * SLICE_ENTRIES // 2
LARGE = MessageSet([Message(bytes(AT_ONCE_BYTES // COUNT))] * COUNT).encode()
SPOILED = LARGE[:-1] + b"\1"


def ask(*parts: tuple[int, bytes], restart: bool = False, acks: int = 1) -> ProduceAck:
    """A request of ours."""
    return ProduceAck(acks, 30_000, tuple([ProducePart("t", number, 0, restart, data) for number, data in parts]))


class LargeSetTests(BrokerTestCase):
    """A topic of two partitions, a producer, and another client."""

    def setUp(self) -> None:
        """Connect."""
        super().setUp()
        self.create("t", 2)
        self.peer = self.connect()
        self.other = self.connect()

    def turns(self, peer: Peer) -> int:
        """Let the broker work until it reads from the peer again, and serve another client in between; how often?"""
        turns = 0

        def other() -> None:
            nonlocal turns
            if not peer.reading:
                turns += 1
                self.other.send(Offsets("none", 0, -1, 1))
                self.assertEqual(self.other.answers(), [OffsetsResponse(0, (0,))])
                self.clock.callLater(0, other)

        other()
        self.clock.advance(0)
        self.settle()
        return turns

    def test_others_are_served(self) -> None:
        """It takes turns, in each of which another client is answered; then the set is in the log, whole."""
        self.peer.send(ask((0, LARGE)))
        self.assertEqual(self.log_of("t").end, 0)
        self.assertGreater(self.turns(self.peer), 2)
        (answer,) = self.peer.answers()
        self.assertEqual((answer.parts[0].error, answer.parts[0].next_id), (0, len(LARGE)))
        self.assertEqual(self.content("t"), LARGE)
        self.assertEqual(self.broker.counters.messages_in, COUNT)

    def test_order(self) -> None:
        """What was sent before and behind it is before and behind it in the log; a produce of 0.7 is no different."""
        for first in (Produce("t", 0, LARGE), MultiProduce((Produce("t", 0, SMALL), Produce("t", 0, LARGE)))):
            begin = len(self.content("t"))
            self.peer.send(Produce("t", 0, SMALL), first, Produce("t", 0, SMALL), ask((0, LARGE)), ask((0, SMALL)))
            self.assertEqual(len(self.content("t")), begin + len(SMALL))
            self.turns(self.peer)
            middle = LARGE if isinstance(first, Produce) else SMALL + LARGE
            self.assertEqual(self.content("t")[begin:], SMALL + middle + SMALL + LARGE + SMALL)
            self.assertEqual(len(self.peer.answers()), 2)

    def test_refused(self) -> None:
        """A set that does not hold is refused at the end as one checked at once is, and breaks the pipeline."""
        requests = (ask((0, SPOILED), (1, LARGE)), ask((0, SMALL)))
        self.peer.send(*requests)
        self.turns(self.peer)
        first, second = self.peer.answers_to(*requests)
        self.assertEqual([part.error for part in first.parts], [InvalidMessage.code, 0])
        self.assertEqual([part.error for part in second.parts], [PipelineBroken.code])
        self.peer.send(Produce("t", 0, SPOILED))
        self.turns(self.peer)
        self.assertEqual((self.content("t"), self.content("t", 1)), (b"", LARGE))
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 2, "PipelineBroken": 1})

    def test_many_small_ones(self) -> None:
        """Parts that are too much together are checked in turns, too."""
        part = MessageSet([Message(b"")] * 2000).encode()
        self.peer.send(ask(*[(number % 2, part) for number in range(AT_ONCE_BYTES // len(part) + 1)]))
        self.assertGreater(self.turns(self.peer), 10)
        (answer,) = self.peer.answers()
        self.assertEqual({part.error for part in answer.parts}, {0})

    def test_topic_is_made_first(self) -> None:
        """A set for a topic that does not exist yet waits for both."""
        self.peer.send(Produce("new", -1, LARGE))
        self.settle()
        self.assertEqual(self.content("new"), LARGE)

    def test_partition_that_the_broker_picks(self) -> None:
        """Putting off takes no turn: partitions are still picked one after the other."""
        for _ in range(4):
            self.peer.send(ask((-1, LARGE)))
            self.turns(self.peer)
        self.assertEqual((self.content("t"), self.content("t", 1)), (LARGE * 2, LARGE * 2))

    def test_limit(self) -> None:
        """The topic's own limit on messages counts."""
        self.create("short", message_bytes=AT_ONCE_BYTES // COUNT - 1)
        self.peer.send(ProduceAck(1, 0, (ProducePart("short", 0, 0, False, LARGE),)))
        self.turns(self.peer)
        self.assertEqual(self.peer.answers()[0].parts[0].error, MessageTooLarge.code)

    def test_lost(self) -> None:
        """A client that goes away meanwhile leaves nothing behind."""
        self.peer.send(ask((0, LARGE)))
        self.clock.callLater(0, self.peer.lose)
        self.clock.advance(0)
        self.assertEqual(self.timers(), [])
        self.assertEqual(self.content("t"), b"")
