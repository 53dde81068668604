"""Tests of the conversations of a server: answers in the order that 0.7 promises, and ours in any."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.protocol.conversation.framed import FramedConversation
from logd.protocol.conversation.interfaces import IConversation
from logd.protocol.conversation.legacy import LegacyConversation
from logd.protocol.conversation.native import NativeConversation
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.fetch_wait import FetchWait, FetchWaitResponse
from logd.protocol.requests.fields import Piece
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, LegacyResponse, OffsetsResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse
from logd.protocol.requests.requests import NativeRequest, Request, Unsupported, encode_request
from logd.protocol.requests.responses import ErrorResponse, NativeResponse, encode_legacy_response, encode_response
from tests.net.doubles import BytesFile, Range
from tests.protocol.strategies import legacy_requests, our_requests

FETCH = Fetch("t", 0, 0, 100)
WAIT = FetchWait(1, 1, 1, (), 5)
ACKED = ProduceAck(1, 1, (), 6)

#: A conversation, and the tokens of what was asked in it.
Asked = tuple[Any, list[Any]]


def framed(*requests: Request) -> bytes:
    """Return the bytes of requests."""
    return b"".join(b"".join(encode_request(request)) for request in requests)


def asked(*requests: Request, conversation: Any = ServerConversation) -> Asked:
    """Return a conversation in which these were asked, and the tokens to answer them with."""
    server = conversation()
    return server, [token for _, token in server.receive_data(framed(*requests))]


def legacy(*sets: bytes) -> list[Piece]:
    """Return the pieces of answers to fetches of 0.7."""
    return [piece for message_set in sets for piece in encode_legacy_response(FetchResponse(0, message_set))]


class ServerConversationTests(SynchronousTestCase):
    """A broker's side of a connection to the native port, which carries both kinds of request."""

    def test_interface(self) -> None:
        """It is a conversation, and so is each of the two that it is made of."""
        for conversation in (ServerConversation(), LegacyConversation(), NativeConversation()):
            self.assertTrue(verifyObject(IConversation, conversation))

    @settings(deadline=None, max_examples=100)
    @given(st.lists(legacy_requests | our_requests, max_size=5), st.integers(1, 60))
    def test_chunks_do_not_matter(self, requests: list[LegacyRequest | NativeRequest], size: int) -> None:
        """The same requests come out wherever the stream is cut."""
        stream = framed(*requests)
        server = ServerConversation()
        got = [each for at in range(0, len(stream), size) for each, _ in server.receive_data(stream[at : at + size])]
        self.assertEqual(got, requests)
        self.assertEqual((server.violation, server.kept_bytes), (None, 0))

    def test_sets_are_bytes(self) -> None:
        """Message sets are bytes of their own, from frames that came whole and in parts."""
        frame = framed(Produce("t", 0, b"abc"))
        server = ServerConversation()
        received = server.receive_data(frame + frame[:-1]) + server.receive_data(frame[-1:])
        for request, _ in received:
            self.assertEqual((type(request.message_set), request.message_set), (bytes, b"abc"))
        self.assertEqual(len(received), 2)

    def test_legacy_answers_wait_for_their_turn(self) -> None:
        """An answer is held until those before it are there; then all go, in order."""
        offsets = OffsetsResponse(0, (7,))
        for kind in (ServerConversation, LegacyConversation):
            server, (first, second, third) = asked(FETCH, FETCH, Offsets("t", 0, -1, 1), conversation=kind)
            self.assertEqual(server.answer(third, offsets), [])
            self.assertEqual(server.answer(second, FetchResponse(0, b"b")), [])
            self.assertEqual(server.unanswered, 3)
            expected = [*legacy(b"a", b"b"), *encode_legacy_response(offsets)]
            self.assertEqual(server.answer(first, FetchResponse(0, b"a")), expected)
            self.assertEqual(server.unanswered, 0)

    def test_equal_requests_are_different(self) -> None:
        """The same question twice has two answers, each in its place."""
        server, (first, second) = asked(FETCH, FETCH)
        self.assertEqual(server.answer(first, FetchResponse(0, b"a")), legacy(b"a"))
        self.assertEqual(server.answer(second, FetchResponse(0, b"b")), legacy(b"b"))

    def test_ours_overtake(self) -> None:
        """Answers of ours are sent at once, each under its correlation id, whatever waits."""
        server, (fetch, wait, ack) = asked(FETCH, WAIT, ACKED)
        self.assertEqual(server.answer(ack, ProduceAckResponse(())), encode_response(ProduceAckResponse(()), 6))
        self.assertEqual(server.answer(wait, FetchWaitResponse(())), encode_response(FetchWaitResponse(()), 5))
        self.assertEqual(server.unanswered, 1)
        self.assertEqual(server.answer(fetch, FetchResponse(0, b"x")), legacy(b"x"))

    def test_no_answer_expected(self) -> None:
        """Produces of 0.7 and acks 0 have no token, and nothing waits for them."""
        server, tokens = asked(Produce("t", 0, b""), MultiProduce(()), ProduceAck(0, 1, ()))
        self.assertEqual((tokens, server.unanswered), ([None, None, None], 0))

    def test_answered_once(self) -> None:
        """A second answer to a request is a mistake."""
        server, (first, second) = asked(FETCH, WAIT)
        answers: list[tuple[Any, LegacyResponse | NativeResponse]] = [
            (first, FetchResponse(0)),
            (second, ErrorResponse(1, "")),
        ]
        for token, response in answers:
            server.answer(token, response)
            self.assertRaises(ValueError, server.answer, token, response)
        self.assertEqual(server.unanswered, 0)

    def test_unsupported_is_answered(self) -> None:
        """A version that is not known waits for an answer like any request of ours."""
        server = ServerConversation()
        ((request, token),) = server.receive_data(bytes.fromhex("0000000a 0011 0007 00000009 abcd"))
        self.assertEqual(request, Unsupported(9, 17, 7))
        self.assertEqual(server.answer(token, ErrorResponse(1, "no")), encode_response(ErrorResponse(1, "no"), 9))

    def test_close(self) -> None:
        """When the connection is lost what is held back is handed over to be closed, and so is what comes later."""
        held, late = (Range(BytesFile(bytes(9)), 0, 9) for _ in range(2))
        server, (first, second, wait) = asked(FETCH, FETCH, WAIT)
        server.answer(second, FetchResponse(0, held))
        self.assertIn(held, server.close())
        self.assertEqual((server.unanswered, server.close()), (0, []))
        self.assertIn(late, server.answer(first, FetchResponse(0, late)))
        self.assertEqual(len(server.answer(wait, ErrorResponse(1, ""))), 1)
        self.assertEqual(server.unanswered, 0)


class OneKindTests(SynchronousTestCase):
    """A connection that carries requests of one kind alone."""

    def test_the_other_kind(self) -> None:
        """A request of the other kind is a violation: what came before it counts, what comes after it does not."""
        kinds: list[tuple[FramedConversation, Request, Request]] = [
            (LegacyConversation(), FETCH, WAIT),
            (NativeConversation(), WAIT, FETCH),
        ]
        for conversation, known, other in kinds:
            received = conversation.receive_data(framed(known, other, known))
            self.assertEqual([request for request, _ in received], [known])
            self.assertIn("is not known", str(conversation.violation))
            self.assertEqual(conversation.receive_data(framed(known)), [])

    def test_kept_bytes(self) -> None:
        """The beginning of a request is kept until the rest has come."""
        data = framed(FETCH)
        conversation = LegacyConversation(100)
        self.assertEqual((conversation.receive_data(data[:-1]), conversation.kept_bytes), ([], len(data) - 1))
        self.assertEqual(len(conversation.receive_data(data[-1:])), 1)
