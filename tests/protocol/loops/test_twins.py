"""Tests that the compiled loops return and raise exactly what those in Python do, on any bytes and arguments.

LOGD_FUZZ_EXAMPLES examples each, 300 by default.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from functools import partial
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from logd.protocol.batch import encode_batch
from logd.protocol.checksums import INDEPENDENT_CHECKSUMS
from logd.protocol.codecs import BATCH_CODEC_NUMBERS
from logd.protocol.entry import encode_gap
from logd.protocol.loops import python
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from tests.frozen_objects import freeze_others
from tests.log.entries import plain
from tests.protocol.loops.twins import TwinsTestCase, outcome, signed
from tests.protocol.strategies import codecs, message_lists

EXAMPLES = int(os.environ.get("LOGD_FUZZ_EXAMPLES", "300"))
_settings = settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


_plain_entries = st.binary(max_size=30).map(plain)
_keyed_entries = message_lists.map(lambda messages: python.encode_set(messages[:1]) or plain(b""))
_wrappers = st.builds(lambda messages, codec: wrap(messages or [Message(b"")], codec), message_lists, codecs)
_batches = st.builds(
    lambda messages, codec, same: encode_batch((messages or [Message(b"x")]) * same, codec),
    message_lists,
    st.just("none") | st.sampled_from(sorted(BATCH_CODEC_NUMBERS)),
    st.integers(1, 3),
)
_gaps = st.integers(9, 40).map(lambda size: encode_gap(size) + bytes(size - 9))
_entries = st.one_of(_plain_entries, _keyed_entries, _wrappers, _batches, _gaps)


@st.composite
def _strange_entries(draw: st.DrawFn) -> bytes:
    """Draw an entry with a few bytes changed, most behind its head, under checksums that hold."""
    data = bytearray(draw(_entries))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(min(9, len(data) - 1), len(data) - 1) | st.integers(4, len(data) - 1))
        data[at] = draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 3, 8, 0x7F, 0x80, 0xFF]))
    return signed(bytes(data))


@st.composite
def _spoiled_sets(draw: st.DrawFn) -> bytes:
    """Draw a set with bytes changed, inserted or left out, and perhaps its end cut."""
    data = bytearray(draw(_sound_sets))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from("cidn")):
            case "c" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "i":
                data[at:at] = draw(st.binary(max_size=8))
            case "d":
                del data[at : at + draw(st.integers(1, 8))]
            case "n":
                number = draw(st.sampled_from([0, 1, 4, 5, 19, 57, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]))
                data[at : at + 4] = number.to_bytes(4, "big")
    return bytes(data[: len(data) - draw(st.integers(0, 12))])


_sound_sets = st.lists(_entries, max_size=5).map(b"".join)
_strange_sets = st.lists(_entries | _strange_entries(), max_size=4).map(b"".join)
#: No headers, whose number takes two bytes.
_LONG_ZERO = signed(bytes.fromhex("00000018 02 00000000 00 ffffffffffffffff ffffffff 8000") + b"text")
sets = st.one_of(_sound_sets, _strange_sets, _spoiled_sets(), st.binary(max_size=120))
_limits = st.sampled_from([0, 1, 2, 5, 50, 1000, 1 << 40, (1 << 63) - 1, 1 << 70, -1])
_slices = st.sampled_from([0, 1, 2, 5, 50, 1000, (1 << 63) - 1])
_indexes = st.integers(0, 40) | st.sampled_from([-1, 1 << 40, 1 << 70])


class TwinsTests(TwinsTestCase):
    """The same call of both implementations."""

    @_settings
    @given(sets, st.sampled_from([0, 3, 40, 1000, 1 << 70]), st.sampled_from([61, 90, 1 << 20, -(1 << 70)]))
    def test_check(self, data: bytes, limit: int, batch_limit: int) -> None:
        """check_set accepts the same sets, with the same findings, and refuses others with the same words."""
        for buffer in (data, memoryview(data), bytearray(data)):
            self.assert_same("check_set", buffer, limit, batch_limit)
        self.assert_same("check_set", data, limit)
        self.assert_same("check_set", data, max_message_bytes=limit)
        for legacy in (False, True, 1):
            self.assert_same("check_set", data, limit, batch_limit, legacy)

    @_settings
    @given(sets, _indexes, _limits, st.booleans(), st.integers(0, 9))
    def test_scan(self, data: bytes, begin: int, until: int, judged: bool, modulus: int) -> None:
        """scan_set finds the same entries, boundaries and problems, and asks about the same entries."""

        def scanned(scan_set: Any, buffer: Any) -> object:
            asked: list[object] = []

            def readable(view: memoryview, at: int, stop: int) -> str:
                asked.append((type(view), bytes(view), at, stop))
                if modulus == 9:
                    raise KeyError(at)
                return "bad" if modulus and stop % modulus == 0 else ""

            found = outcome(
                lambda: scan_set(
                    buffer,
                    begin,
                    until,
                    newest=modulus - 2,
                    next_boundary=begin + modulus,
                    boundary_bytes=modulus * 5,
                    readable=readable if judged else None,
                )
            )
            return found, asked

        for buffer in (data, memoryview(data)):
            self.assertEqual(scanned(self.compiled.scan_set, buffer), scanned(python.scan_set, buffer))
        self.assert_same("scan_set", data)
        self.assert_same("scan_set", data, checksums=INDEPENDENT_CHECKSUMS)

    @_settings
    @given(message_lists)
    def test_encode(self, messages: list[Message]) -> None:
        """Both encode to the same bytes, lists, tuples and iterators."""
        for loop in ("encode_set", "encode_records", "payload_sizes"):
            self.assert_same(loop, messages)
            self.assert_same(loop, tuple(messages))
            self.assert_same(loop, messages * 70)
        self.assertEqual(self.compiled.encode_set(iter(messages)), python.encode_set(iter(messages)))

    @_settings
    @given(
        st.lists(
            st.binary(max_size=70)
            | st.none()
            | st.text(max_size=3)
            | st.binary(max_size=3).map(bytearray)
            | st.binary(max_size=3).map(Message)
        )
    )
    def test_encode_payloads(self, payloads: list[object]) -> None:
        """Payloads alone, and what is none."""
        for loop in ("encode_payloads", "encode_payload_records"):
            for given_payloads in (payloads, [each for each in payloads if type(each) is bytes]):
                self.assert_same(loop, given_payloads)
                self.assert_same(loop, tuple(given_payloads) * 70)
                self.assert_same(loop, dict.fromkeys(map(str, given_payloads)).keys())
        for head in (b"", b"a head", "no head", None):
            for given_payloads in (payloads, [each for each in payloads if type(each) is bytes]):
                self.assert_same("encode_payload_frames", head, given_payloads)
                self.assert_same("encode_payload_frames", head, tuple(given_payloads) * 70)
        self.assert_same("encode_payload_frames", b"a head")

    @_settings
    @given(
        st.binary(max_size=5) | st.none() | st.integers(),
        st.binary(max_size=5) | st.none() | st.text(max_size=2),
        st.none() | st.integers(-3, 3) | st.sampled_from([(1 << 63) - 1, 1 << 63, -(1 << 63), 1.5]),
        st.sampled_from([(), [], (("a", b"b"),), (("\ud800", b""),), (("a", 1),), ((b"a", b""),), (("a",),), None]),
    )
    def test_encode_what_is_no_message(self, payload: object, key: object, time: object, headers: object) -> None:
        """Tuples that only look like messages are encoded, or refused, in the same way."""
        strange = tuple.__new__(Message, (payload, key, time, headers, -1, -1, None, -1))
        for loop in ("encode_set", "encode_records"):
            for messages in ([strange], [Message(b"x", timestamp=5), strange], [strange, 7], [tuple(strange)], 7):
                self.assert_same(loop, messages)

    @_settings
    @given(sets, st.integers(-1, 60), _slices, _slices, st.sampled_from([3, 1 << 20]), st.sampled_from([2, 1 << 20]))
    def test_decode(self, data: bytes, start_at: int, limit: int, limit_bytes: int, most: int, messages: int) -> None:
        """decode_set gives the same messages, places and errors, in one call and in many."""
        self.assert_decoded_alike(
            data,
            start_at=start_at,
            limit=limit,
            limit_bytes=limit_bytes,
            max_decompressed=most,
            max_decompressed_messages=messages,
        )

    @_settings
    @given(sets, _indexes, st.sampled_from([0, 5, (1 << 61) + 1, 1 << 70, -5]))
    @example(_LONG_ZERO, 0, 0)
    def test_decode_anywhere(self, data: bytes, begin: int, position: int) -> None:
        """Any index and position, and other buffers than bytes."""
        self.assert_same("decode_set", data, position, begin=begin)
        self.assert_same("decode_set", memoryview(data), position)
        self.assert_same("decode_set", data, position, topic=5, partition="p", begin=begin)
        self.assert_same("decode_set", data, position, begin, begin)
        self.assert_same("decode_set", data, limit=begin, limit_bytes=position)
        self.assert_same("decode_set", data, max_decompressed=position, max_decompressed_messages=begin)

    @_settings
    @given(sets, _slices, _slices, st.sampled_from([3, 1 << 20]), st.sampled_from([2, 1 << 20]), st.booleans())
    def test_columns(
        self, data: bytes, limit: int, limit_bytes: int, most: int, messages: int, include_values: bool
    ) -> None:
        """columns_of_set gives the same buffers, and ends before the same entry, in one call and in many."""
        self.assert_columns_alike(
            data,
            limit=limit,
            limit_bytes=limit_bytes,
            max_decompressed=most,
            max_decompressed_messages=messages,
            include_values=include_values,
        )

    @_settings
    @given(sets, _indexes, st.sampled_from([0, 5, (1 << 61) + 1, 1 << 70, -5]), _limits, _limits)
    @example(_LONG_ZERO, 0, 0, 5, 1000)
    def test_columns_anywhere(self, data: bytes, begin: int, position: int, limit: int, limit_bytes: int) -> None:
        """Any index and position, and other buffers than bytes."""
        self.assert_same("columns_of_set", data)
        self.assert_same("columns_of_set", data, position, begin=begin, limit=limit, limit_bytes=limit_bytes)
        self.assert_same("columns_of_set", data, position, max_decompressed=limit, max_decompressed_messages=begin)
        self.assert_same("columns_of_set", memoryview(data), position, include_values=begin)
        self.assert_same("columns_of_set", data, position, begin, limit)
        for opened in (begin, None, "batch"):
            self.assert_same("columns_of_set", data, opened=opened)

    @_settings
    @given(sets, _indexes, _limits, _limits)
    def test_lengths(self, data: bytes, at: int, entries: int, size: int) -> None:
        """Heads, ends and slices are the same."""
        for buffer in (data, memoryview(data)):
            self.assert_same("heads_of_set", buffer, at)
            self.assert_same("ends_of_set", buffer, at)
            self.assert_same("slice_end", buffer, at, min(entries, 1000), size)

    @_settings
    @given(sets | st.lists(_batches | _gaps, max_size=5).map(b"".join), _indexes, _limits, _limits, st.integers(0, 255))
    def test_batch_runs(self, data: bytes, begin: int, most: int, largest: int, codecs: int) -> None:
        """Runs of batches end at the same places, and are the same on the wire."""
        for buffer in (data, memoryview(data)):
            for verify in (False, True):
                self.assert_same("find_batches", buffer, verify=verify)
                self.assert_same("find_batches", buffer, most_bytes=most, codecs=codecs, verify=verify)
            self.assert_same("find_batches", buffer, max(begin, 0), largest=largest)
            self.assert_same("wire_of_run", buffer, begin)
        run = python.find_batches(data)
        wire = self.compiled.wire_of_run(data[: run.end], 1000)
        self.assertEqual((wire, len(wire)), (python.wire_of_run(data[: run.end], 1000), run.wire_bytes))

    @_settings
    @given(
        st.lists(_plain_entries | _keyed_entries | _entries | _strange_entries(), max_size=6).map(b"".join) | sets,
        _indexes,
        st.sampled_from([0, 1, 19, 20, 500, 1 << 40]),
        _indexes,
        _limits,
        _slices,
    )
    def test_records_of_sets(self, data: bytes, position: int, base: int, begin: int, until: int, limit: int) -> None:
        """Entries become the same records, up to the same entry."""
        self.assert_same("records_of_set", data, 20, 20)
        self.assert_same("records_of_set", data, max(position, 0), base)
        self.assert_same("records_of_set", data, 20, 3, begin=max(begin, 0), until=until, limit=limit)

    @_settings
    @given(
        st.lists(st.tuples(st.sampled_from([b"h1", b"h2"]), sets, st.integers(-1, 1)), max_size=5),
        st.integers(0, 200),
        _indexes,
        st.sampled_from([0, 2, 40]) | _limits,
        st.sampled_from([30, 1 << 20, 1 << 70, -1]),
        _limits,
    )
    def test_join_frames(
        self, frames: list[tuple[bytes, bytes, int]], cut: int, begin: int, head_bytes: int, limit: int, most: int
    ) -> None:
        """join_frames takes the same frames, some of which have a wrong size, another head or half an entry."""
        rows = [
            (len(head + each) + 4 + wrong).to_bytes(4, "big") + head + len(each).to_bytes(4, "big") + each
            for head, each, wrong in frames
        ]
        for data in (b"".join(rows), b"".join(rows * 2)[: -cut or None], b"".join(rows[:1] * 3)):
            for buffer in (data, memoryview(data), bytearray(data)):
                self.assert_same("join_frames", buffer, 0, 2, limit, 100)
            self.assert_same("join_frames", data, max(begin, 0), head_bytes, limit, min(most, 1000))
            self.assert_same("join_frames", data, begin=0, head_bytes=2, frame_bytes=limit, most=3)

    def test_arguments_of_another_kind(self) -> None:
        """Missing, unknown and wrong arguments give the same errors."""
        data = plain(b"x")
        for name in python.__all__:
            self.assert_same(name)
            self.assert_same(name, data, unknown=1)
            self.assert_same(name, *[data] * 12)
            self.assert_same(name, None)
            self.assert_same(name, "text", 5)
            self.assert_same(name, data, "5", "6", "7")
            self.assert_same(name, data, True, 1, 2)
        self.assert_same("check_set", memoryview(data).cast("I") if len(data) % 4 == 0 else memoryview(data), 100)
        self.assert_same("check_set", memoryview(data)[::2], 100)
        self.assert_same("check_set", memoryview(data + data)[1:].cast("c"), 100)

    def test_no_call_keeps_anything(self) -> None:
        """Whatever a loop returns or raises, the memory is given back: what is left is less than an object a round."""
        keyed = Message(b"value", key=b"key", timestamp=5, headers=[("name", b"x"), ("none", None)])
        messages = [Message(b"value"), keyed, Message(None, key=b"key")] * 5
        encoded = python.encode_set(messages)
        batches = encode_batch(messages) + encode_batch(messages, "zstd")
        data = [encoded, batches, encoded + wrap(messages, "gzip"), encode_gap(9) + encoded, encoded[:-3], _LONG_ZERO]
        data += [signed(batches[:-9] + b"\0\0" + batches[-7:]), encoded[:-1] + b"?", encoded + b"\0\0\0\5\4\0\0\0\0"]
        strange = [[tuple.__new__(Message, (b"x", None, 5, (("\ud800", b""),), -1, -1, None, -1))], [7], 7]

        def refuse(view: memoryview, at: int, stop: int) -> str:
            raise KeyError(at)

        def call_all() -> None:
            for each in data:
                for name in ("scan_set", "decode_set", "columns_of_set", "heads_of_set", "ends_of_set", "find_batches"):
                    getattr(self.compiled, name)(each)
                self.compiled.records_of_set(each, 5, 0)
                outcome(partial(self.compiled.wire_of_run, each, 0))
                for limit in (3, 1000):
                    outcome(partial(self.compiled.check_set, memoryview(each), limit))
                outcome(partial(self.compiled.scan_set, each, readable=refuse))
                for limit in (1, 7, 1000):
                    found = self.compiled.columns_of_set(each, limit=limit)
                    self.compiled.columns_of_set(each, found.consumed, begin=found.consumed, opened=found.opened)
                decoded = self.compiled.decode_set(each, limit=7)
                if decoded.opened is not None:
                    self.compiled.decode_set(each, decoded.consumed, begin=decoded.consumed, opened=decoded.opened)
            for given_messages in (messages, messages[:1], *strange):
                outcome(partial(self.compiled.encode_set, given_messages))
                outcome(partial(self.compiled.encode_records, given_messages))
                outcome(partial(self.compiled.encode_payloads, given_messages))
                outcome(partial(self.compiled.payload_sizes, given_messages))
                outcome(partial(self.compiled.join_frames, data[0], 0, given_messages, 1000, 10))
            frame = (len(encoded) + 4).to_bytes(4, "big") + len(encoded).to_bytes(4, "big") + encoded
            self.compiled.join_frames(frame * 5, 0, 0, len(frame), 10)
            self.compiled.join_frames(memoryview(frame), 0, 0, len(frame), 10)
            self.compiled.encode_payloads(data)
            self.compiled.encode_payload_records(data)

        def kept() -> int:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(60):
                call_all()
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before

        freeze_others(self)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        # Lost memory is lost in every round, a cache grows in some; no object is smaller than 24 bytes.
        self.assertTrue(any(kept() < 60 * 24 for _ in range(20)), "each of 20 rounds kept something")

    def test_messages_are_not_the_collectors_business(self) -> None:
        """Messages hold bytes, str and int alone, and with many of them the collector would only lose time."""
        decoded = self.compiled.decode_set(plain(b"x") * 10, topic="t")
        self.assertEqual([gc.is_tracked(message) for message in decoded.messages], [False] * 10)
        self.assertTrue(gc.is_tracked(decoded))
