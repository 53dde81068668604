"""Tests of a server's conversations: answers of 0.7 in order, those of native requests in any."""

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
from logd.protocol.requests.legacy_requests import Fetch, JoinedProduces, LegacyRequest, MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, LegacyResponse, OffsetsResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse
from logd.protocol.requests.requests import NativeRequest, Request, Unsupported, encode_request
from logd.protocol.requests.responses import ErrorResponse, NativeResponse, encode_legacy_response, encode_response
from tests.log.entries import plain
from tests.net.doubles import BytesFile, Range
from tests.protocol.strategies import legacy_requests, native_requests

FETCH = Fetch("t", 0, 0, 100)
WAIT = FetchWait(1, 1, 1, (), 5)
ACKED = ProduceAck(1, 1, (), 6)

#: A conversation, and the tokens of the requests that it has received.
Asked = tuple[Any, list[Any]]


def framed(*requests: Request) -> bytes:
    """Return the frames of requests."""
    return b"".join(b"".join(encode_request(request)) for request in requests)


def asked(*requests: Request, conversation: Any = ServerConversation) -> Asked:
    """Return a conversation that has received these requests, and the tokens to answer them with."""
    server = conversation()
    return server, [token for _, token in server.receive_data(framed(*requests))]


def legacy(*sets: bytes) -> list[Piece]:
    """Return the pieces of answers to fetches of 0.7."""
    return [piece for message_set in sets for piece in encode_legacy_response(FetchResponse(0, message_set))]


class ServerConversationTests(SynchronousTestCase):
    """A broker's side of a connection to the native port, which carries both kinds of request."""

    def test_each_conversation_provides_iconversation(self) -> None:
        """The two conversations that it is made of do so too, and can be used alone."""
        for conversation in (ServerConversation(), LegacyConversation(), NativeConversation()):
            self.assertTrue(verifyObject(IConversation, conversation))

    @settings(deadline=None, max_examples=100)
    @given(st.lists(legacy_requests | native_requests, max_size=5), st.integers(1, 60))
    def test_requests_do_not_depend_on_chunks(self, requests: list[LegacyRequest | NativeRequest], size: int) -> None:
        """No byte is kept and no violation found once the whole stream has come."""
        stream = framed(*requests)
        server = ServerConversation()
        got = [each for at in range(0, len(stream), size) for each, _ in server.receive_data(stream[at : at + size])]
        self.assertEqual(got, requests)
        self.assertEqual((server.violation, server.kept_bytes), (None, 0))

    @settings(deadline=None, max_examples=100)
    @given(
        st.lists(
            st.builds(
                Produce,
                st.sampled_from(["t", "tt", "topic \N{GREEK SMALL LETTER ALPHA}"]),
                st.sampled_from([0, 0, 0, 1, -1]),
                st.sampled_from([plain(b"a"), plain(b"b") * 2, plain(b"a"), plain(b"c")[:9], plain(b"c")[9:], b""]),
            )
            | st.just(FETCH),
            max_size=12,
        ),
        st.integers(1, 400),
    )
    def test_produces_are_joined_and_stay_the_same(self, requests: list[Produce | Fetch], size: int) -> None:
        """Those for one partition that arrive together become one request, wherever the stream is cut."""
        stream = framed(*requests)
        server = ServerConversation()
        received = [
            each for at in range(0, len(stream), size) for each, _ in server.receive_data(stream[at : at + size])
        ]
        got = [one for each in received for one in (each.produces() if type(each) is JoinedProduces else [each])]
        self.assertEqual(got, requests)
        self.assertEqual((server.violation, server.kept_bytes), (None, 0))
        for each in received:
            if type(each) is JoinedProduces:
                self.assertGreater(len(each.sizes), 1)
                self.assertGreaterEqual(each.partition, 0)

    def test_a_row_of_produces_is_one_request(self) -> None:
        """Up to another partition, or to a frame above the limit, which breaks the stream as it would otherwise."""
        sets = [plain(b"a"), plain(b"bb"), plain(b"c")]
        row = framed(*[Produce("t", 0, each) for each in sets])
        server = ServerConversation(max_frame_bytes=100)
        received = server.receive_data(
            row + framed(Produce("t", 1, sets[0])) + row + framed(Produce("t", 0, bytes(99)))
        )
        joined = JoinedProduces("t", 0, b"".join(sets), [10, 11, 10])
        self.assertEqual([each for each, _ in received], [joined, Produce("t", 1, sets[0]), joined])
        self.assertIn("a frame of 112 bytes", str(server.violation))
        self.assertEqual(server.receive_data(row), [])

    def test_message_sets_are_bytes_of_their_own(self) -> None:
        """From frames that came whole or in chunks: a set waits for the disk while the buffer changes."""
        frame = framed(Produce("t", 0, b"abc"))
        server = ServerConversation()
        received = server.receive_data(frame + frame[:-1]) + server.receive_data(frame[-1:])
        for request, _ in received:
            self.assertEqual((type(request.message_set), request.message_set), (bytes, b"abc"))
        self.assertEqual(len(received), 2)

    def test_answers_of_0_7_wait_for_their_turn(self) -> None:
        """Clients of 0.7 match answers by order alone; a held answer goes once those before it are made."""
        offsets = OffsetsResponse(0, (7,))
        for kind in (ServerConversation, LegacyConversation):
            server, (first, second, third) = asked(FETCH, FETCH, Offsets("t", 0, -1, 1), conversation=kind)
            self.assertEqual(server.answer(third, offsets), [])
            self.assertEqual(server.answer(second, FetchResponse(0, b"b")), [])
            self.assertEqual(server.unanswered, 3)
            expected = [*legacy(b"a", b"b"), *encode_legacy_response(offsets)]
            self.assertEqual(server.answer(first, FetchResponse(0, b"a")), expected)
            self.assertEqual(server.unanswered, 0)

    def test_equal_requests_get_an_answer_each(self) -> None:
        """Tokens tell them apart, since the requests themselves compare equal."""
        server, (first, second) = asked(FETCH, FETCH)
        self.assertEqual(server.answer(first, FetchResponse(0, b"a")), legacy(b"a"))
        self.assertEqual(server.answer(second, FetchResponse(0, b"b")), legacy(b"b"))

    def test_native_answers_overtake_those_of_0_7(self) -> None:
        """They have correlation ids, so that none has to wait for a fetch before it."""
        server, (fetch, wait, ack) = asked(FETCH, WAIT, ACKED)
        self.assertEqual(server.answer(ack, ProduceAckResponse(())), encode_response(ProduceAckResponse(()), 6))
        self.assertEqual(server.answer(wait, FetchWaitResponse(())), encode_response(FetchWaitResponse(()), 5))
        self.assertEqual(server.unanswered, 1)
        self.assertEqual(server.answer(fetch, FetchResponse(0, b"x")), legacy(b"x"))

    def test_produces_without_acks_have_no_token(self) -> None:
        """They do not count as unanswered, which would hold up a stop."""
        server, tokens = asked(Produce("t", 0, b""), MultiProduce(()), ProduceAck(0, 1, ()))
        self.assertEqual((tokens, server.unanswered), ([None, None, None], 0))

    def test_a_second_answer_is_refused(self) -> None:
        """ValueError: a second answer of 0.7 would shift all later ones."""
        server, (first, second) = asked(FETCH, WAIT)
        answers: list[tuple[Any, LegacyResponse | NativeResponse]] = [
            (first, FetchResponse(0)),
            (second, ErrorResponse(1, "")),
        ]
        for token, response in answers:
            server.answer(token, response)
            self.assertRaises(ValueError, server.answer, token, response)
        self.assertEqual(server.unanswered, 0)

    def test_an_unknown_version_waits_for_its_answer(self) -> None:
        """It has a token like any request, and the error goes out under its correlation id."""
        server = ServerConversation()
        ((request, token),) = server.receive_data(bytes.fromhex("0000000a 0011 0007 00000009 abcd"))
        self.assertEqual(request, Unsupported(9, 17, 7))
        self.assertEqual(server.answer(token, ErrorResponse(1, "no")), encode_response(ErrorResponse(1, "no"), 9))

    def test_closing_returns_the_answers_to_close(self) -> None:
        """Held answers and later ones may be open files; each must be returned once, or descriptors leak."""
        held, late = (Range(BytesFile(bytes(9)), 0, 9) for _ in range(2))
        server, (first, second, wait) = asked(FETCH, FETCH, WAIT)
        server.answer(second, FetchResponse(0, held))
        self.assertIn(held, server.close())
        self.assertEqual((server.unanswered, server.close()), (0, []))
        self.assertIn(late, server.answer(first, FetchResponse(0, late)))
        self.assertEqual(len(server.answer(wait, ErrorResponse(1, ""))), 1)
        self.assertEqual(server.unanswered, 0)


class OneKindTests(SynchronousTestCase):
    """Connections that carry only one kind of request."""

    def test_a_request_of_the_other_kind_is_a_violation(self) -> None:
        """Requests before it are returned, and those behind it are not."""
        kinds: list[tuple[FramedConversation, Request, Request]] = [
            (LegacyConversation(), FETCH, WAIT),
            (NativeConversation(), WAIT, FETCH),
        ]
        for conversation, known, other in kinds:
            received = conversation.receive_data(framed(known, other, known))
            self.assertEqual([request for request, _ in received], [known])
            self.assertIn("is not known", str(conversation.violation))
            self.assertEqual(conversation.receive_data(framed(known)), [])

    def test_the_beginning_of_a_request_is_kept(self) -> None:
        """It counts as kept bytes, which a broker limits over all connections."""
        data = framed(FETCH)
        conversation = LegacyConversation(100)
        self.assertEqual((conversation.receive_data(data[:-1]), conversation.kept_bytes), ([], len(data) - 1))
        self.assertEqual(len(conversation.receive_data(data[-1:])), 1)
