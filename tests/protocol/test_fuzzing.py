"""Runs of the targets of fuzzing.py with LOGD_FUZZ_EXAMPLES examples each, 300 by default."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.conversation.client import FIRST_CORRELATION_ID
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.legacy_responses import FetchResponse, MultiFetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import BrokerAddress, MetadataResponse, PartitionMetadata, TopicMetadata
from logd.protocol.requests.produce_ack import ProduceAckResponse, ProducedPart
from logd.protocol.requests.requests import encode_request
from logd.protocol.requests.responses import encode_legacy_response, encode_response
from tests.protocol import fuzzing
from tests.protocol.loops.implementations import IMPLEMENTATIONS
from tests.protocol.strategies import codecs, message_lists, requests
from tests.protocol.wire import joined

EXAMPLES = int(os.environ.get("LOGD_FUZZ_EXAMPLES", "300"))

_settings = settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))

_TOPIC = TopicMetadata("t", 0, "uuid", (PartitionMetadata(0, 0, 1, 0, (1,), (1,)),))
_RESPONSES = [
    encode_legacy_response(FetchResponse(0, b"abc")),
    encode_legacy_response(MultiFetchResponse(0, (FetchResponse(0, b"abc"),))),
    encode_legacy_response(OffsetsResponse(0, (5,))),
    encode_response(MetadataResponse((BrokerAddress(1, "h", 1),), (_TOPIC,)), FIRST_CORRELATION_ID),
    encode_response(ProduceAckResponse((ProducedPart("t", 0, 0, 0, 0, 9),)), FIRST_CORRELATION_ID + 1),
]
_responses = st.lists(st.sampled_from([joined(pieces) for pieces in _RESPONSES]), max_size=5).map(b"".join)
_requests = st.lists(requests.map(lambda request: b"".join(encode_request(request))), max_size=5).map(b"".join)
_sets = st.lists(
    st.builds(lambda messages, codec: MessageSet(messages, codec).encode(), message_lists, st.just("none") | codecs),
    max_size=3,
).map(b"".join)


@st.composite
def _spoiled(draw: st.DrawFn, sound: st.SearchStrategy[bytes]) -> bytes:
    """Draw sound bytes with some changed, inserted or left out, behind a byte that says how they are cut."""
    data = bytearray(draw(sound))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from("cidn")):
            case "c" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "i":
                data[at:at] = draw(st.binary(max_size=8))
            case "d":
                del data[at : at + draw(st.integers(1, 8))]
            case "n":
                data[at : at + 4] = draw(st.sampled_from([0, 1, 5, 4096, 4097, 1 << 31, (1 << 32) - 1])).to_bytes(
                    4, "big"
                )
    return bytes([draw(st.integers(0, 255))]) + bytes(data)


class FuzzingTests(SynchronousTestCase):
    """Random bytes, and valid bytes with a few changes."""

    @_settings
    @given(st.binary(max_size=300) | _spoiled(_requests))
    def test_frames_do_not_depend_on_chunks(self, data: bytes) -> None:
        """Nor may the parser hold more bytes than have arrived, or raise anything but a violation."""
        fuzzing.frames(data)

    @_settings
    @given(st.binary(max_size=300) | _spoiled(_requests))
    def test_server_requests_do_not_depend_on_chunks(self, data: bytes) -> None:
        """Each request that a broker reads can be written again to a frame of the same size."""
        fuzzing.server(data)

    @_settings
    @given(st.binary(max_size=300) | _spoiled(_responses))
    def test_client_responses_do_not_depend_on_chunks(self, data: bytes) -> None:
        """Each response belongs to a request that was sent, and each request has one at most."""
        fuzzing.client(data)

    @_settings
    @given(st.binary(max_size=100) | _spoiled(_sets).map(lambda data: data[1:]))
    def test_a_set_that_the_broker_takes_can_be_read(self, data: bytes) -> None:
        """In every implementation of the loops; only a wrapper's inside is left to the consumer."""
        for loops in IMPLEMENTATIONS.values():
            fuzzing.sets(data, loops)
