"""Tests of a server's conversation with damaged and hostile bytes: it never hangs and never raises."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.legacy_requests import LegacyRequest, MultiProduce, Produce
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.requests import NativeRequest, Request, encode_request
from tests.protocol.strategies import legacy_requests, native_requests

REQUESTS = legacy_requests | native_requests


def converse(data: bytes) -> tuple[list[Request], ServerConversation]:
    """Feed ``data`` to a new conversation; return its requests and the conversation."""
    server = ServerConversation(1 << 20)
    return [request for request, _ in server.receive_data(data)], server


class HostileRequestTests(SynchronousTestCase):
    """Requests that are damaged, cut, or made up."""

    @settings(deadline=None, max_examples=100)
    @given(REQUESTS)
    def test_every_prefix_of_a_request_is_waited_for(self, request: LegacyRequest | NativeRequest) -> None:
        """It is no violation and no request until the last byte has come."""
        frame = b"".join(encode_request(request))
        for stop in range(len(frame)):
            requests, server = converse(frame[:stop])
            self.assertEqual((requests, server.violation, server.kept_bytes), ([], None, stop))
        self.assertEqual(converse(frame)[0], [request])

    @settings(deadline=None, max_examples=60)
    @given(REQUESTS)
    def test_a_frame_of_another_size_is_a_violation(self, request: LegacyRequest | NativeRequest) -> None:
        """The frame's size is true, but its fields need fewer or more bytes."""
        body = b"".join(encode_request(request))[4:]
        for stop in range(1, len(body)):
            requests, server = converse(stop.to_bytes(4, "big") + body[:stop])
            self.assertEqual(requests, [])
            self.assertIsNotNone(server.violation)
        requests, server = converse((len(body) + 1).to_bytes(4, "big") + body + b"\0")
        self.assertEqual(requests, [])
        self.assertIsNotNone(server.violation)

    @settings(deadline=None, max_examples=300)
    @given(REQUESTS, st.data())
    def test_a_changed_byte_raises_nothing(self, request: LegacyRequest | NativeRequest, data: st.DataObject) -> None:
        """The outcome is requests, a violation, or a wait for more bytes."""
        frame = b"".join(encode_request(request))
        at = data.draw(st.integers(0, len(frame) - 1))
        changed = frame[:at] + bytes((frame[at] ^ data.draw(st.integers(1, 255)),)) + frame[at + 1 :]
        requests, server = converse(changed)
        self.assertTrue(requests or server.violation or server.kept_bytes)

    @settings(deadline=None, max_examples=300)
    @given(st.sampled_from([0, 1, 2, 3, 4, 16, 17, 18, 19, 20, 21, 22, 23]), st.binary(max_size=80), st.booleans())
    def test_random_fields_give_one_request_or_a_violation(self, number: int, body: bytes, versioned: bool) -> None:
        """Behind each known type, in a frame of the right size: never silence, for which a client would wait."""
        middle = number.to_bytes(2, "big") + (b"\0\0" if versioned else b"")
        requests, server = converse((len(middle) + len(body)).to_bytes(4, "big") + middle + body)
        self.assertEqual(len(requests) + (server.violation is not None), 1)
        self.assertEqual(server.kept_bytes, 0)

    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.binary(max_size=60), max_size=5))
    def test_random_bytes_raise_nothing(self, chunks: list[bytes]) -> None:
        """In any chunks; after a violation no more requests are taken."""
        server = ServerConversation(1000)
        for chunk in chunks:
            broken = server.violation is not None
            self.assertFalse(server.receive_data(chunk) and broken)

    def test_requests_before_a_violation_are_returned(self) -> None:
        """They are sound and may be acknowledged; those behind the violation are ignored."""
        good = b"".join(encode_request(Produce("t", 0, b"x")))
        requests, server = converse(good + good + b"\0\0\0\0" + good)
        self.assertEqual(requests, [Produce("t", 0, b"x")] * 2)
        self.assertIn("0 bytes, 1 to 1048576 are allowed", str(server.violation))
        self.assertEqual(server.receive_data(good), [])

    def test_huge_counts_take_no_time(self) -> None:
        """Lists that claim thousands of millions of items are refused before the first one is read."""
        started = time.process_time()
        for text in ("0002 7fff", "0003 7fff", "0010 0000 00000001 00 7fffffff", "0015 0000 00000001 0000 7fffffff"):
            body = bytes.fromhex(text) + bytes(100)
            requests, server = converse(len(body).to_bytes(4, "big") + body)
            self.assertEqual(requests, [])
            self.assertIsNotNone(server.violation)
        self.assertLess(time.process_time() - started, 1)

    def test_the_fast_path_of_a_produce_equals_the_slow_one(self) -> None:
        """For sound and for damaged Produces, and the requests nearest to it."""
        for frame, good in (
            (b"".join(encode_request(Produce("tö", -1, b"abc"))), True),
            (bytes.fromhex("0000000d 0000 0001 ff 00000000 00000000"), False),
            (bytes.fromhex("0000000c 0000 ffff 00000000 00000000"), False),
            (bytes.fromhex("00000002 0000"), False),
            (bytes.fromhex("00000001 00"), False),
        ):
            requests, server = converse(frame)
            self.assertEqual((len(requests), server.violation is None), (int(good), good))
        self.assertEqual(converse(b"".join(encode_request(MultiProduce(()))))[0], [MultiProduce(())])
        self.assertEqual(converse(b"".join(encode_request(Metadata(()))))[0], [Metadata(())])
