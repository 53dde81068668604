"""Tests of the requests and responses: their vectors, and that what is encoded is decoded."""

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
from tests.protocol.strategies import legacy_requests, our_requests

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
    """Requests both ways."""

    def test_vectors(self) -> None:
        """The requests of 0.7 have the bytes that they had in 0.7."""
        for text, request in VECTORS.items():
            self.assertEqual(framed(request).hex(), text.replace(" ", ""))
            decoded = decode(bytes.fromhex(text))
            self.assertEqual((type(decoded), decoded), (type(request), request))

    @settings(deadline=None, max_examples=200)
    @given(legacy_requests | our_requests)
    def test_round_trip(self, request: LegacyRequest | NativeRequest) -> None:
        """Every request comes back equal and of its own type, from bytes and from a memoryview."""
        frame = framed(request)
        for data in (frame, memoryview(frame)):
            decoded = decode_request(data, 4, len(frame))
            self.assertEqual((type(decoded), decoded), (type(request), request))

    def test_correlation_id_given(self) -> None:
        """An id given to the encoder stands in for the request's own."""
        pieces = encode_request(Metadata(None, correlation_id=7), 9)
        self.assertEqual(decode(b"".join(pieces)), Metadata(None, correlation_id=9))

    def test_sets_are_not_copied(self) -> None:
        """A message set is one of the pieces, the very object."""
        message_set = HELLO_1 * 10
        for request in (Produce("t", 0, message_set), ProduceAck(1, 9, (ProducePart("t", 0, 0, False, message_set),))):
            self.assertTrue(any(piece is message_set for piece in encode_request(request)))

    def test_what_is_answered(self) -> None:
        """Produces of 0.7 and acks 0 have no response; every other request has one."""
        for request, answered, legacy in (
            (Produce("t", 0, b""), False, True),
            (MultiProduce(()), False, True),
            (Fetch("t", 0, 0, 1), True, True),
            (ProduceAck(0, 1, ()), False, False),
            (ProduceAck(1, 1, ()), True, False),
            (Unsupported(1, 17, 9), True, False),
        ):
            self.assertEqual((expects_response(request), is_legacy(request)), (answered, legacy))

    def test_values_that_fit_no_field(self) -> None:
        """A string or a list too long for its length field, or a string without UTF-8, is the caller's error."""
        fetch = Fetch("t", 0, 0, 1)
        for request in (
            fetch._replace(topic="x" * 32768),
            fetch._replace(topic="\ud800"),
            MultiFetch((fetch,) * 32768),
        ):
            self.assertRaises(InvalidRequest, encode_request, request)


class BadRequestTests(SynchronousTestCase):
    """Bytes that are no request."""

    def assert_violation(self, text: str, why: str) -> None:
        """Check that the bytes behind a frame's size are refused for that reason."""
        body = bytes.fromhex(text)
        error = self.assertRaises(ProtocolViolation, decode_request, body, 0, len(body))
        self.assertIn(why, str(error))

    def test_types(self) -> None:
        """Types that nobody knows, and no type at all, are violations."""
        self.assert_violation("0005", "type 5 is not known")
        self.assert_violation("0020", "type 32 is not known")
        self.assert_violation("ffff", "type -1 is not known")
        self.assert_violation("00", "2 bytes of fields wanted")

    def test_versions(self) -> None:
        """Another version of a request of ours is handed out by name, whatever follows."""
        self.assertEqual(decode_request(bytes.fromhex("0011 0001 00000005 ffffff"), 0, 11), Unsupported(5, 17, 1))

    def test_lengths(self) -> None:
        """Lengths that do not add up are violations and say so."""
        self.assert_violation("0001 0005 746f", "a field of 5 bytes")
        self.assert_violation("0001 ffff 746f", "a field of -1 bytes")
        self.assert_violation("0000 0001 74 00000000 00000002 61", "a field of 2 bytes")
        self.assert_violation("0000 0001 74 00000000 ffffffff", "a field of -1 bytes")
        self.assert_violation("0000 0001 74 00000000 00000000 61", "1 bytes are left over")
        self.assert_violation("0002 ffff", "-1 items")
        self.assert_violation("0002 7fff 0000", "32767 items in 2 bytes")
        self.assert_violation("0010 0000 00000001 00 fffffffe", "-2 items")
        self.assert_violation("0001 0001 ff 00000000 0000000000000000 00000000", "not UTF-8")

    def test_huge_counts(self) -> None:
        """More items than one list may have are refused before an object is made for any."""
        positions = (0,) * (MAX_ITEMS + 1)
        frame = framed(DescribeLog("t", 0, positions))
        error = self.assertRaises(ProtocolViolation, decode, frame)
        self.assertIn(f"{MAX_ITEMS + 1} items", str(error))
        decode(framed(DescribeLog("t", 0, positions[1:])))
