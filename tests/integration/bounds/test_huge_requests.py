"""The largest requests at a real broker: answered, or refused with a reason, while another client is served."""

from __future__ import annotations

import threading
from typing import Any

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import OffsetsResponse
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.requests import MAX_ITEMS, encode_request
from tests.integration.peers import BrokerTestCase, Peer

SMALL = MessageSet([Message(b"small")]).encode()
#: Much work for its size: most of a megabyte of empty messages.
TINY = MessageSet([Message(b"")] * 70_000).encode()
#: Pipelined produces, and how often they are sent at most: they take 0.1 s, in which a busy machine may not let the
#: other client in although the broker would serve it.
BURST, BURSTS = 100_000, 20


class HugeRequestTestCase(BrokerTestCase):
    """One client sends the largest requests while another sends small ones all the time."""

    def setUp(self) -> None:
        """Store a message, and start the client with small requests."""
        super().setUp()
        self.peer = self.connect()
        part = self.peer.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, SMALL),))).parts[0]
        self.assertEqual(part.next_position, len(SMALL))
        self.enough = threading.Event()
        self.asked = 0
        self.wrong: list[Any] = []
        self.thread = threading.Thread(target=self.keep_asking, args=(self.connect(),))
        self.thread.start()
        self.addCleanup(self.thread.join)
        self.addCleanup(self.enough.set)

    def keep_asking(self, other: Peer) -> None:
        """Ask for the start of the log, over and over, and note wrong answers."""
        try:
            while not self.enough.is_set():
                answer = other.ask(Offsets("t", 0, -2, 1))
                if answer != OffsetsResponse(0, (0,)):
                    self.wrong.append(answer)
                self.asked += 1
        except Exception as error:
            self.wrong.append(error)

    def ask(self, request: Any) -> Any:
        """Send a large request; return its answer once the other client has been answered after it."""
        answer = self.peer.ask(request)
        asked = self.asked
        self.until(lambda: self.asked > asked + 1 or self.wrong, "the other client is served")
        self.assertEqual(self.wrong, [])
        return answer


class HugeRequestTests(HugeRequestTestCase):
    """Requests with as many items as are allowed, and with more."""

    def test_as_many_fetches_as_allowed_are_answered(self) -> None:
        """Each of the 10,000 parts is answered, those beyond the answer's room with no messages."""
        answer = self.ask(MultiFetch((Fetch("t", 0, 0, 100),) * MAX_ITEMS))
        self.assertEqual({part.message_set for part in answer.parts}, {SMALL})
        self.assertEqual(len(answer.parts), MAX_ITEMS)
        for request in (
            FetchWait(0, 1, 1 << 30, (FetchPart("t", 0, 0, 0, 100),) * MAX_ITEMS),
            FetchWait(0, 1, 1 << 30, (FetchPart("t", 0, 0, 3, 100),) * MAX_ITEMS),
            FetchWait(50, 1, 1 << 30, (FetchPart("t", 0, 0, len(SMALL), 100),) * MAX_ITEMS),
        ):
            parts = self.ask(request).parts
            self.assertEqual(len(parts), MAX_ITEMS)
            self.assertEqual({bytes(part.message_set) for part in parts}, {SMALL if request.max_wait_ms == 0 else b""})

    def test_as_many_sets_as_allowed_are_stored(self) -> None:
        """10,000 sets by MultiProduce and 10,000 by ProduceAck are all in the log."""
        self.peer.begin(MultiProduce((Produce("t", 0, SMALL),) * MAX_ITEMS))
        answer = self.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, SMALL),) * MAX_ITEMS))
        self.assertEqual({part.error for part in answer.parts}, {0})
        self.assertEqual(answer.parts[-1].next_position, (2 * MAX_ITEMS + 1) * len(SMALL))

    def test_as_many_questions_as_allowed_are_answered(self) -> None:
        """Metadata of 10,000 unknown topics creates none of them; a DescribeLog takes as many positions."""
        topics = self.ask(Metadata(tuple(f"no-{number}" for number in range(MAX_ITEMS)), False)).topics
        self.assertEqual((len(topics), {topic.error for topic in topics}), (MAX_ITEMS, {101}))
        described = self.ask(DescribeLog("t", 0, tuple(range(MAX_ITEMS)), -1))
        self.assertEqual(set(described.boundaries), {0, len(SMALL)})
        self.assertEqual([topic.topic for topic in self.ask(Metadata(None)).topics], ["t"])

    def test_one_item_too_many_closes_the_connection(self) -> None:
        """The log says how many items came and how many are allowed; the other client does not notice."""
        parts = MAX_ITEMS + 1
        for request in (
            MultiFetch((Fetch("t", 0, 0, 1),) * parts),
            MultiProduce((Produce("t", 0, SMALL),) * 32_767),
            FetchWait(0, 1, 1, (FetchPart("t", 0, 0, 0, 1),) * 65_536),
            Metadata(("t",) * parts),
            ProduceAck(1, 0, (ProducePart("t", 0, 0, False, SMALL),) * parts),
        ):
            peer = self.connect()
            peer.send(b"".join(encode_request(request)))
            self.assertTrue(peer.is_closed())
        self.until_logged("65536 items in one list, 10000 are allowed")
        self.assertEqual(self.ask(Offsets("t", 0, -1, 1)), OffsetsResponse(0, (len(SMALL),)))

    def test_another_client_is_served_between_pipelined_produces(self) -> None:
        """100,000 produces of one message each arrive in one piece; all are stored, and none waits for all of them."""
        produce, sent = b"".join(encode_request(Produce("t", 0, SMALL))), 0
        for _ in range(BURSTS):
            asked = self.asked
            self.peer.send(produce * BURST)
            sent += BURST
            (end,) = self.peer.ask(Offsets("t", 0, -1, 1)).offsets
            meanwhile = self.asked - asked  # counted from before the first one: they may be done at once after the last
            self.assertEqual(end % len(SMALL), 0)
            self.assertEqual(self.wrong, [])
            if meanwhile > 1:
                break
        else:
            self.fail("the other client had to wait for all produces each time")
        self.until(
            lambda: self.peer.ask(Offsets("t", 0, -1, 1)).offsets == ((sent + 1) * len(SMALL),), "all is visible"
        )


class LongCheckTests(HugeRequestTestCase):
    """With the loops in Python, in which a check takes long enough for a busy machine to let the other client in."""

    wrap = ("env", "LOGD_LOOPS=python")

    def test_another_client_is_served_while_a_large_set_is_checked(self) -> None:
        """Checking a megabyte of tiny messages takes long; the reactor must not be held for all of it."""
        parts = tuple([ProducePart("large", number, 0, False, TINY) for number in range(16)])
        self.peer.ask(Metadata(("large",), True))
        request = ProduceAck(1, 0, tuple([part._replace(partition=0) for part in parts]))
        self.peer.begin(request)
        asked = self.asked
        self.assertEqual({part.error for part in self.peer.answer(request).parts}, {0})
        self.assertGreater(self.asked - asked, 50)  # above 100, and 1 to 25 by a broker that checks all at once
        self.assertEqual(self.wrong, [])
