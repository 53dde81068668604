"""Native requests at a real broker, where answers leave by sendfile."""

from __future__ import annotations

import os

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.create_delete_topic import CreateTopic
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Offsets
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducedPart, ProducePart
from tests.integration.peers import BrokerTestCase

BAD = MessageSet([Message(b"bad")]).encode()[:-1] + b"D"


def some_set(number: int, size: int = 10) -> bytes:
    """Return a set that differs from all others."""
    return MessageSet([Message(b"%d " % number + os.urandom(size))]).encode()


class NativeRequestTests(BrokerTestCase):
    """Native requests, on a topic of three partitions."""

    def setUp(self) -> None:
        """Create the topic."""
        super().setUp()
        self.peer = self.connect()
        self.assertEqual(self.peer.ask(CreateTopic("t", 3, {})).error, 0)

    def test_pipelined_produces_are_answered_each_by_its_acks(self) -> None:
        """A refusal in the middle fails the sets behind it in the same partition until one begins a new sequence."""
        sets = [some_set(number) for number in range(5)]
        size = len(sets[0])
        one = ProduceAck(1, 60_000, (ProducePart("t", 0, 0, False, sets[0]), ProducePart("t", 1, 0, False, sets[1])))
        none = ProduceAck(0, 60_000, (ProducePart("t", 0, 0, False, sets[2]),))
        bad = ProduceAck(-1, 60_000, (ProducePart("t", 0, 0, False, BAD), ProducePart("t", 2, 0, False, sets[3])))
        behind = ProduceAck(-1, 60_000, (ProducePart("t", 0, 0, False, sets[4]),))
        copies = ProduceAck(2, 60_000, (ProducePart("t", 1, 0, False, sets[4]),))
        self.peer.begin(one, none, bad, behind, copies)
        first = ProducedPart("t", 0, 0, 0, 0, size)
        self.assertEqual(self.peer.answer(one).parts, (first, ProducedPart("t", 1, 0, 1, 0, size)))
        self.assertEqual([part.error for part in self.peer.answer(bad).parts], [2, 0])
        self.assertEqual([part.error for part in self.peer.answer(behind).parts], [105])
        self.assertEqual([part.error for part in self.peer.answer(copies).parts], [108])
        again = ProduceAck(-1, 60_000, (ProducePart("t", 0, 0, True, sets[4]), ProducePart("t", -1, 0, False, sets[4])))
        (here, picked) = self.peer.ask(again).parts
        self.assertEqual((here.first_id, here.next_position), (2 * size, 3 * size))
        self.assertEqual((picked.partition, picked.error, picked.stored_partition in range(3)), (-1, 0, True))
        log = self.peer.ask(Fetch("t", 0, 0, 1000)).message_set
        self.assertEqual(log[: 3 * size], sets[0] + sets[2] + sets[4])

    def test_other_requests_overtake_a_fetch_that_waits(self) -> None:
        """It is answered once messages come, in large and small parts, from the start of an entry or inside one."""
        large, small = some_set(1, 900_000), some_set(2)
        parts = (FetchPart("t", 0, 0, 0, 1 << 24, True), FetchPart("t", 1, 0, 0, 1 << 24, True))
        waiting = FetchWait(60_000, len(large) + len(small), 0, parts)
        self.peer.begin(waiting, Offsets("t", 0, -1, 1), metadata := Metadata(("t",)), fetch := Fetch("t", 0, 0, 10))
        self.assertEqual(self.peer.answer(fetch), FetchResponse(0))
        self.assertEqual(len(self.peer.answer(metadata).topics[0].partitions), 3)
        other = self.connect()
        for partition, message_set in enumerate((large, small)):
            other.ask(ProduceAck(-1, 0, (ProducePart("t", partition, 0, False, message_set),)))
        expected = tuple([FetchedPart("t", n, 0, 0, len(each), 0, each) for n, each in enumerate((large, small))])
        self.assertEqual(self.peer.answer(waiting).parts, expected)
        inside = FetchWait(0, 1, 0, (FetchPart("t", 0, 0, 5, 300_000), FetchPart("t", 0, 0, 5, 300_000, True)))
        found = self.peer.ask(inside).parts
        self.assertEqual([part.first_position for part in found], [0, 5])
        self.assertEqual([part.message_set for part in found], [large[:300_000], large[5:300_005]])

    def test_an_unknown_version_is_answered_with_an_error(self) -> None:
        """A newer client can fall back to a version that this broker knows, on the same connection."""
        self.peer.send(bytes.fromhex("0000000d 0012 0002 40000005 0102030405"))
        text = b"version 2 of request type 18 is not known to this broker"
        expected = (8 + len(text)).to_bytes(4, "big") + bytes.fromhex("40000005 0064 0038") + text
        self.assertEqual(self.peer.receive(len(expected)), expected)
        self.assertEqual(self.peer.ask(Offsets("t", 0, -2, 1)), OffsetsResponse(0, (0,)))
