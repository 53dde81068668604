"""Tests of message sets that take long to check: other clients are served meanwhile, and the order holds."""

from __future__ import annotations

from logd.broker.requests.sliced_checks import AT_ONCE_BYTES, SLICE_ENTRIES
from logd.errors import InvalidMessage, MessageTooLarge, PipelineBroken
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_requests import MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import OffsetsResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase, Peer

SMALL = MessageSet([Message(b"small")]).encode()
#: Some slices.
COUNT = 5 * SLICE_ENTRIES // 2
LARGE = MessageSet([Message(bytes(AT_ONCE_BYTES // COUNT))] * COUNT).encode()
SPOILED = LARGE[:-1] + b"\1"


def ask(*parts: tuple[int, bytes], restart: bool = False, acks: int = 1) -> ProduceAck:
    """Return a ProduceAck of these parts."""
    return ProduceAck(acks, 30_000, tuple([ProducePart("t", number, 0, restart, data) for number, data in parts]))


class LargeSetTests(BrokerTestCase):
    """A topic of two partitions, a producer, and another client."""

    def setUp(self) -> None:
        """Make the topic, and connect both clients."""
        super().setUp()
        self.create("t", 2)
        self.peer = self.connect()
        self.other = self.connect()

    def turns(self, peer: Peer) -> int:
        """Serve another client until the broker reads from the peer again; return the number of turns it took."""
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

    def test_other_clients_are_served_meanwhile(self) -> None:
        """The set is checked in several turns of the reactor, and appended whole."""
        self.peer.send(ask((0, LARGE)))
        self.assertEqual(self.log_of("t").end, 0)
        self.assertGreater(self.turns(self.peer), 2)
        (answer,) = self.peer.answers()
        self.assertEqual((answer.parts[0].error, answer.parts[0].next_position), (0, len(LARGE)))
        self.assertEqual(self.content("t"), LARGE)
        self.assertEqual(self.broker.counters.messages_in, COUNT)

    def test_the_log_keeps_the_order_of_requests(self) -> None:
        """Small sets before and behind a large one stay there, of either kind of request."""
        for first in (Produce("t", 0, LARGE), MultiProduce((Produce("t", 0, SMALL), Produce("t", 0, LARGE)))):
            begin = len(self.content("t"))
            self.peer.send(Produce("t", 0, SMALL), first, Produce("t", 0, SMALL), ask((0, LARGE)), ask((0, SMALL)))
            self.assertEqual(len(self.content("t")), begin + len(SMALL))
            self.turns(self.peer)
            middle = LARGE if isinstance(first, Produce) else SMALL + LARGE
            self.assertEqual(self.content("t")[begin:], SMALL + middle + SMALL + LARGE + SMALL)
            self.assertEqual(len(self.peer.answers()), 2)

    def test_a_bad_large_set_is_refused(self) -> None:
        """The refusal breaks the pipeline, as that of a set checked at once does."""
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

    def test_many_small_parts_are_checked_in_turns(self) -> None:
        """No part is large, but their sum is."""
        part = MessageSet([Message(b"")] * 2000).encode()
        self.peer.send(ask(*[(number % 2, part) for number in range(AT_ONCE_BYTES // len(part) + 1)]))
        self.assertGreater(self.turns(self.peer), 10)
        (answer,) = self.peer.answers()
        self.assertEqual({part.error for part in answer.parts}, {0})

    def test_a_large_set_waits_for_its_topic(self) -> None:
        """The check begins once the topic is there."""
        self.peer.send(Produce("new", -1, LARGE))
        self.settle()
        self.assertEqual(self.content("new"), LARGE)

    def test_a_delayed_set_gets_one_turn(self) -> None:
        """Partitions are still picked one after the other, though each set is looked at twice."""
        for _ in range(4):
            self.peer.send(ask((-1, LARGE)))
            self.turns(self.peer)
        self.assertEqual((self.content("t"), self.content("t", 1)), (LARGE * 2, LARGE * 2))

    def test_the_topics_own_limit_holds(self) -> None:
        """The topic's limit on messages is below the broker's."""
        self.create("short", message_bytes=AT_ONCE_BYTES // COUNT - 1)
        self.peer.send(ProduceAck(1, 0, (ProducePart("short", 0, 0, False, LARGE),)))
        self.turns(self.peer)
        self.assertEqual(self.peer.answers()[0].parts[0].error, MessageTooLarge.code)

    def test_a_lost_client_leaves_nothing(self) -> None:
        """The set is half checked, and no timer goes on with the check."""
        self.peer.send(ask((0, LARGE)))
        self.clock.callLater(0, self.peer.lose)
        self.clock.advance(0)
        self.assertEqual(self.timers(), [])
        self.assertEqual(self.content("t"), b"")
