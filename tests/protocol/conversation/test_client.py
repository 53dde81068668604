"""Tests of logd.protocol.conversation.client, most of them against the server's side."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import InvalidRequest, MessageTooLarge
from logd.protocol.conversation import client as client_conversation
from logd.protocol.conversation.client import FIRST_CORRELATION_ID, ClientConversation
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.create_delete_topic import DeleteTopic, DeleteTopicResponse
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import Metadata, MetadataResponse
from logd.protocol.requests.produce_ack import ProduceAck
from logd.protocol.requests.requests import NativeRequest, Request
from logd.protocol.requests.responses import Response, encode_legacy_response, encode_response
from tests.protocol.wire import joined

FETCH = Fetch("t", 0, 0, 100)
OFFSETS = Offsets("t", 0, -1, 1)
WAIT = FetchWait(1, 1, 1, ())
PIPELINE: list[LegacyRequest | NativeRequest] = [
    FETCH,
    WAIT,
    Produce("t", 0, b"x"),
    OFFSETS,
    ProduceAck(0, 1, ()),
    Metadata(None),
    DeleteTopic("t"),
    FETCH,
]


def response_to(request: Request) -> Response:
    """Return a sound response to a request."""
    responses: dict[type, Response] = {
        Fetch: FetchResponse(0, b"abc"),
        Offsets: OffsetsResponse(0, (5,)),
        FetchWait: FetchWaitResponse((FetchedPart("t", 0, 0, 1, 2, 3, b"set"),)),
        DeleteTopic: DeleteTopicResponse(101, "none"),
        Metadata: MetadataResponse((), ()),
    }
    return responses[type(request)]


def fetched() -> bytes:
    """Return the bytes of a sound answer to FETCH."""
    return joined(encode_legacy_response(FetchResponse(0, b"abc")))


class ClientConversationTests(SynchronousTestCase):
    """The client's side of one connection."""

    @settings(deadline=None, max_examples=60)
    @given(st.permutations([0, 1, 2, 3, 4, 5]), st.integers(1, 50))
    def test_responses_in_any_order_find_their_requests(self, order: list[int], size: int) -> None:
        """Requests of both kinds are in flight, and the bytes come in any chunks; those of 0.7 keep their order."""
        client = ClientConversation()
        server = ServerConversation()
        received = server.receive_data(b"".join(b"".join(client.send(request)) for request in PIPELINE))
        waiting = [(request, token) for request, token in received if token is not None]
        self.assertEqual(client.outstanding, 6)
        turns = [waiting[index] for index in order]
        wire = joined([piece for request, token in turns for piece in server.answer(token, response_to(request))])
        got = [pair for at in range(0, len(wire), size) for pair in client.receive_data(wire[at : at + size])]
        self.assertEqual((client.outstanding, client.violation, len(got)), (0, None, 6))
        expected = {
            Fetch: FetchResponse(0, b"abc"),
            Offsets: OffsetsResponse(0, (5,)),
            FetchWait: FetchWaitResponse((FetchedPart("t", 0, 0, 1, 2, 3, b"set"),)),
            Metadata: MetadataResponse((), ()),
            DeleteTopic: DeleteTopicResponse(101, "none"),
        }
        for request, response in got:
            self.assertEqual(response, expected[type(request)])
            self.assertTrue(any(request is sent for sent in PIPELINE))
        legacy = [type(request) for request, _ in got if isinstance(request, Fetch | Offsets)]
        self.assertEqual(legacy, [Fetch, Offsets, Fetch])

    def test_a_set_in_chunks_becomes_bytes_of_its_own(self) -> None:
        """It must not refer to a buffer that the next chunk changes."""
        client = ClientConversation()
        client.send(FETCH)
        wire = fetched()
        client.receive_data(wire[:7])
        ((_, response),) = client.receive_data(wire[7:])
        assert isinstance(response, FetchResponse)
        self.assertEqual((type(response.message_set), response.message_set), (bytes, b"abc"))

    def test_a_response_without_a_request_is_a_violation(self) -> None:
        """Of either kind; responses after it are not taken, since they may belong to other requests."""
        for wire in (
            fetched(),
            joined(encode_response(MetadataResponse((), ()), FIRST_CORRELATION_ID)),
        ):
            client = ClientConversation()
            self.assertEqual(client.receive_data(wire), [])
            self.assertIsNotNone(client.violation)
            client.send(FETCH)
            self.assertEqual(client.receive_data(fetched()), [])

    def test_responses_before_a_violation_are_returned(self) -> None:
        """Their requests were answered, and need not be sent again."""
        client = ClientConversation()
        client.send(FETCH)
        got = client.receive_data(fetched() + bytes(4))
        self.assertEqual(got, [(FETCH, FetchResponse(0, b"abc"))])
        self.assertIn("0 bytes", str(client.violation))

    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.binary(max_size=40), max_size=4), st.booleans())
    def test_random_bytes_from_a_broker_raise_nothing(self, chunks: list[bytes], ours: bool) -> None:
        """Framed or not, with or without a known correlation id."""
        client = ClientConversation(1000)
        for request in PIPELINE:
            client.send(request)
        for chunk in chunks:
            head = FIRST_CORRELATION_ID.to_bytes(4, "big") if ours else b""
            client.receive_data((len(head) + len(chunk)).to_bytes(4, "big") + head + chunk)
            client.receive_data(chunk)

    def test_a_request_above_the_frame_limit_is_refused(self) -> None:
        """The broker would close the connection; no response is expected for it."""
        client = ClientConversation(100)
        self.assertRaises(MessageTooLarge, client.send, Produce("t", 0, bytes(100)))
        self.assertRaises(MessageTooLarge, client.send, Metadata(("x" * 100,)))
        self.assertEqual(client.outstanding, 0)

    def test_a_number_too_large_for_its_field_is_refused(self) -> None:
        """By InvalidRequest, not struct.error; no response is expected for it."""
        client = ClientConversation()
        self.assertRaises(InvalidRequest, client.send, FETCH._replace(offset=1 << 63))
        self.assertRaises(InvalidRequest, client.send, WAIT._replace(max_bytes=1 << 31))
        self.assertEqual(client.outstanding, 0)

    def test_correlation_ids_start_again_at_the_first(self) -> None:
        """A lower id would look like a response of 0.7."""
        self.patch(client_conversation, "_LAST_CORRELATION_ID", FIRST_CORRELATION_ID + 1)
        client = ClientConversation()
        ids = [int.from_bytes(b"".join(client.send(WAIT))[8:12], "big") - FIRST_CORRELATION_ID for _ in range(3)]
        self.assertEqual(ids, [0, 1, 0])
