"""Tests of the requests: vectors, round trips, and refusals of bytes that are no request."""

from __future__ import annotations

from hypothesis import given, settings
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import InvalidRequest, ProtocolViolation
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.requests import (
    MAX_ITEMS,
    NativeRequest,
    Request,
    Unsupported,
    decode_request,
    encode_request,
    expects_response,
    is_legacy,
)
from tests.protocol.loops.test_loops import HELLO_1
from tests.protocol.strategies import legacy_requests, native_requests

VECTORS: dict[str, LegacyRequest] = {
    "0000001f 0000 0004 74657374 00000000 0000000f" + HELLO_1.hex(): Produce("test", 0, HELLO_1),
    "00000019 0001 0005 746f706963 00000001 000000000000000a 00000064": Fetch("topic", 1, 10, 100),
    "0000001b 0002 0001 0005 746f706963 00000001 000000000000000a 00000064": MultiFetch((Fetch("topic", 1, 10, 100),)),
    "00000021 0003 0001 0004 74657374 00000000 0000000f" + HELLO_1.hex(): MultiProduce((Produce("test", 0, HELLO_1),)),
    "00000018 0004 0004 74657374 00000000 ffffffffffffffff 00000001": Offsets("test", 0, -1, 1),
}


def framed(request: LegacyRequest | NativeRequest) -> bytes:
    """Return the request's frame in one piece."""
    return b"".join(encode_request(request))


def decode(frame: bytes) -> Request:
    """Decode a frame that must say its own size."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return decode_request(frame, 4, len(frame))


class RequestTests(SynchronousTestCase):
    """Requests that are encoded and decoded."""

    def test_requests_of_0_7_have_their_bytes_of_2011(self) -> None:
        """They are written out in hex, so that an encoder and a decoder cannot be wrong together."""
        for text, request in VECTORS.items():
            self.assertEqual(framed(request).hex(), text.replace(" ", ""))
            decoded = decode(bytes.fromhex(text))
            self.assertEqual((type(decoded), decoded), (type(request), request))

    @settings(deadline=None, max_examples=200)
    @given(legacy_requests | native_requests)
    def test_every_request_comes_back_as_it_was(self, request: LegacyRequest | NativeRequest) -> None:
        """With its own type too, from bytes and from a memoryview."""
        frame = framed(request)
        for data in (frame, memoryview(frame)):
            decoded = decode_request(data, 4, len(frame))
            self.assertEqual((type(decoded), decoded), (type(request), request))

    def test_a_given_correlation_id_replaces_the_requests(self) -> None:
        """A conversation numbers its requests without a copy of each."""
        pieces = encode_request(Metadata(None, correlation_id=7), 9)
        self.assertEqual(decode(b"".join(pieces)), Metadata(None, correlation_id=9))

    def test_encoding_copies_no_message_set(self) -> None:
        """The set is one of the pieces, the same object: sets are nearly all bytes of a producer."""
        message_set = HELLO_1 * 500
        for request in (Produce("t", 0, message_set), ProduceAck(1, 9, (ProducePart("t", 0, 0, False, message_set),))):
            self.assertTrue(any(piece is message_set for piece in encode_request(request)))

    def test_only_produces_without_acks_have_no_response(self) -> None:
        """Those of 0.7, and with acks=0: a client that waited for one would wait for ever."""
        for request, answered, legacy in (
            (Produce("t", 0, b""), False, True),
            (MultiProduce(()), False, True),
            (Fetch("t", 0, 0, 1), True, True),
            (ProduceAck(0, 1, ()), False, False),
            (ProduceAck(1, 1, ()), True, False),
            (Unsupported(1, 17, 9), True, False),
        ):
            self.assertEqual((expects_response(request), is_legacy(request)), (answered, legacy))

    def test_values_that_fit_no_field_are_refused(self) -> None:
        """InvalidRequest for a string or a list too long for its length field, and for text without UTF-8."""
        fetch = Fetch("t", 0, 0, 1)
        for request in (
            fetch._replace(topic="x" * 32768),
            fetch._replace(topic="\ud800"),
            MultiFetch((fetch,) * 32768),
        ):
            self.assertRaises(InvalidRequest, encode_request, request)


class BadRequestTests(SynchronousTestCase):
    """Frames that are no request."""

    def assert_violation(self, text: str, why: str) -> None:
        """Check that the bytes behind a frame's size are refused for that reason."""
        body = bytes.fromhex(text)
        error = self.assertRaises(ProtocolViolation, decode_request, body, 0, len(body))
        self.assertIn(why, str(error))

    def test_an_unknown_type_is_a_violation(self) -> None:
        """So is a frame without a type; the error names the number."""
        self.assert_violation("0005", "type 5 is not known")
        self.assert_violation("0028", "type 40 is not known")
        self.assert_violation("ffff", "type -1 is not known")
        self.assert_violation("00", "2 bytes of fields wanted")

    def test_an_unknown_version_is_no_violation(self) -> None:
        """It is returned as Unsupported with its correlation id, so that it can be answered by an error."""
        self.assertEqual(decode_request(bytes.fromhex("0011 0001 00000005 ffffff"), 0, 11), Unsupported(5, 17, 1))

    def test_wrong_lengths_are_violations(self) -> None:
        """Fields and lists that are negative, cut, or followed by bytes: the error says which."""
        self.assert_violation("0001 0005 746f", "a field of 5 bytes")
        self.assert_violation("0001 ffff 746f", "a field of -1 bytes")
        self.assert_violation("0000 0001 74 00000000 00000002 61", "a field of 2 bytes")
        self.assert_violation("0000 0001 74 00000000 ffffffff", "a field of -1 bytes")
        self.assert_violation("0000 0001 74 00000000 00000000 61", "1 byte left over")
        self.assert_violation("0002 ffff", "-1 items")
        self.assert_violation("0002 7fff 0000", "32767 items in 2 bytes")
        self.assert_violation("0010 0000 00000001 00 fffffffe", "-2 items")
        self.assert_violation("0001 0001 ff 00000000 0000000000000000 00000000", "not UTF-8")

    def test_a_huge_count_is_refused_before_any_item(self) -> None:
        """One above MAX_ITEMS is a violation, and as many as MAX_ITEMS are decoded."""
        positions = (0,) * (MAX_ITEMS + 1)
        frame = framed(DescribeLog("t", 0, positions))
        error = self.assertRaises(ProtocolViolation, decode, frame)
        self.assertIn(f"{MAX_ITEMS + 1} items", str(error))
        decode(framed(DescribeLog("t", 0, positions[1:])))
