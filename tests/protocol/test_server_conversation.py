"""Tests of logd.protocol.server_conversation: answers in the order that 0.7 promises."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.fetch_wait import FetchWait
from logd.protocol.legacy_requests import Fetch, LegacyRequest, MultiProduce, Offsets, Produce
from logd.protocol.produce_ack import ProduceAck
from logd.protocol.requests import OurRequest, Request, Unsupported, encode_request
from logd.protocol.server_conversation import ServerConversation
from tests.protocol.strategies import legacy_requests, our_requests

FETCH = Fetch("t", 0, 0, 100)
WAIT = FetchWait(1, 1, 1, (), 5)


def asked(*requests: LegacyRequest | OurRequest) -> tuple[ServerConversation[str], list[Request]]:
    """Return a conversation in which these were asked, and the requests as they came out."""
    server: ServerConversation[str] = ServerConversation()
    return server, server.receive_data(b"".join(b"".join(encode_request(request)) for request in requests))


class ServerConversationTests(SynchronousTestCase):
    """A broker's side of one connection."""

    @settings(deadline=None, max_examples=100)
    @given(st.lists(legacy_requests | our_requests, max_size=5), st.integers(1, 60))
    def test_chunks_do_not_matter(self, requests: list[LegacyRequest | OurRequest], size: int) -> None:
        """The same requests come out wherever the stream is cut."""
        stream = b"".join(b"".join(encode_request(request)) for request in requests)
        server: ServerConversation[bytes] = ServerConversation()
        got = [each for at in range(0, len(stream), size) for each in server.receive_data(stream[at : at + size])]
        self.assertEqual(got, requests)
        self.assertEqual((server.violation, server.kept_bytes), (None, 0))

    def test_sets_are_bytes(self) -> None:
        """Message sets are bytes of their own, from frames that came whole and in parts."""
        frame = b"".join(encode_request(Produce("t", 0, b"abc")))
        server: ServerConversation[bytes] = ServerConversation()
        requests = server.receive_data(frame + frame[:-1]) + server.receive_data(frame[-1:])
        for request in requests:
            assert isinstance(request, Produce)
            self.assertEqual((type(request.message_set), request.message_set), (bytes, b"abc"))
        self.assertEqual(len(requests), 2)

    def test_legacy_answers_wait_for_their_turn(self) -> None:
        """An answer is held until those before it are there; then all go, in order."""
        server, (first, second, third) = asked(FETCH, FETCH, Offsets("t", 0, -1, 1))
        self.assertEqual(server.answer(third, ["c"]), [])
        self.assertEqual(server.answer(second, ["b1", "b2"]), [])
        self.assertEqual(server.unanswered, 3)
        self.assertEqual(server.answer(first, ["a"]), ["a", "b1", "b2", "c"])
        self.assertEqual(server.unanswered, 0)

    def test_equal_requests_are_different(self) -> None:
        """The same question twice has two answers, each in its place."""
        server, (first, second) = asked(FETCH, FETCH)
        self.assertEqual(first, second)
        self.assertEqual(server.answer(first, ["a"]), ["a"])
        self.assertEqual(server.answer(second, ["b"]), ["b"])

    def test_ours_overtake(self) -> None:
        """Answers of ours are sent at once, whatever waits."""
        server, (fetch, wait, ack) = asked(FETCH, WAIT, ProduceAck(1, 1, (), 6))
        self.assertEqual(server.answer(ack, ["ack"]), ["ack"])
        self.assertEqual(server.answer(wait, ["wait"]), ["wait"])
        self.assertEqual(server.answer(fetch, ["fetch"]), ["fetch"])

    def test_no_answer_expected(self) -> None:
        """Produces of 0.7 and acks 0 never wait in the queue, and answering them is a mistake."""
        server, requests = asked(Produce("t", 0, b""), MultiProduce(()), ProduceAck(0, 1, ()))
        self.assertEqual(server.unanswered, 0)
        for request in requests:
            self.assertRaises(ValueError, server.answer, request, ["x"])

    def test_answered_once(self) -> None:
        """A second answer to a request is a mistake."""
        server, (first, second) = asked(FETCH, WAIT)
        for request in (first, second):
            server.answer(request, ["x"])
            self.assertRaises(ValueError, server.answer, request, ["x"])

    def test_unsupported_is_answered(self) -> None:
        """A version that is not known waits for an answer like any request of ours."""
        server: ServerConversation[str] = ServerConversation()
        requests = server.receive_data(bytes.fromhex("0000000a 0011 0007 00000009 abcd"))
        self.assertEqual(requests, [Unsupported(9, 17, 7)])
        self.assertEqual(server.answer(requests[0], ["no"]), ["no"])

    def test_held_pieces(self) -> None:
        """When the connection is lost what is held back is handed over to be closed, and nothing waits any more."""
        server, (_, second, _wait) = asked(FETCH, FETCH, WAIT)
        server.answer(second, ["file"])
        self.assertEqual(server.held_pieces(), ["file"])
        self.assertEqual((server.unanswered, server.held_pieces()), (0, []))
