"""Tests of any bytes in any node of the registries: a reader returns a value or raises ValueError, soon."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.checkedjson import excerpt, load_json
from logd.coord.registries.brokers import BrokerInfo
from logd.coord.registries.consumers import Subscription
from logd.coord.registries.deleted_topics import _read_note
from logd.coord.registries.offsets import decode_position, encode_position
from logd.coord.registries.stored_ends import StoredEnds
from logd.coord.registries.topics import decode_entry
from logd.topic import TopicEntry

#: A slow machine must fail no test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_HUGE = 10**400
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([_HUGE, -_HUGE, 1 << 31, 1 << 63, -1]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["0", "00", "-1", "1", "٣", "my topic", "..", "a/b", "\x1b[2J", "\ud800"]),
)
_KEYS = st.one_of(
    st.text(max_size=10),
    st.sampled_from(
        ["uuid", "partitions", "settings", "host", "port", "instance", "topics", "patterns", "brokers", "0"]
    ),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=6)),
    max_leaves=12,
)
#: The fields of each registry, with anything in place of any of them.
_LIKELY = st.one_of(
    st.fixed_dictionaries({"uuid": _VALUES, "partitions": _VALUES, "settings": _VALUES}),
    st.fixed_dictionaries(
        {
            "uuid": st.just("u"),
            "partitions": st.dictionaries(_KEYS, _VALUES),
            "settings": st.dictionaries(_KEYS, _VALUES),
        }
    ),
    st.fixed_dictionaries({"host": _VALUES, "port": _VALUES, "instance": _VALUES, "topics": _VALUES}),
    st.fixed_dictionaries({"host": st.just("h"), "port": _VALUES, "instance": st.just("i"), "topics": _VALUES}),
    st.fixed_dictionaries(
        {
            "host": st.just("h"),
            "port": st.just(1),
            "instance": st.just("i"),
            "topics": st.just({}),
            "kafka": st.one_of(
                _VALUES, st.lists(st.fixed_dictionaries({"host": _VALUES, "port": _VALUES}), max_size=3)
            ),
        }
    ),
    st.fixed_dictionaries({"topics": _VALUES, "patterns": _VALUES}),
    st.fixed_dictionaries({"topics": st.just({}), "patterns": st.lists(st.tuples(_VALUES, _VALUES), max_size=3)}),
    st.fixed_dictionaries({"brokers": _VALUES}),
    st.fixed_dictionaries({"instance": st.just("i"), "ends": st.one_of(_VALUES, st.dictionaries(_KEYS, _VALUES))}),
)
_BYTES = st.one_of(
    st.binary(max_size=60),
    st.text(st.sampled_from('{}[]":,0123456789eE+-.NaInfity\\u'), max_size=60).map(lambda text: text.encode()),
    st.one_of(_VALUES, _LIKELY).map(lambda value: json.dumps(value).encode()),
)
_NESTED = b"[" * 500_000
_NESTED_IN_KEYS = b'{"a":' * 500_000

_READERS: tuple[Callable[[str, bytes], Any], ...] = (
    decode_entry,
    BrokerInfo.decode,
    lambda name, data: Subscription.from_bytes(data),
    lambda name, data: decode_position(data),
    _read_note,
    StoredEnds.decode,
    lambda name, data: load_json(data),
)


class UntrustedTests(SynchronousTestCase):
    """Every reader of a node."""

    @_PATIENT
    @given(st.sampled_from(["t", "my topic", "0", "x", "9" * 5000, "٣", ""]), _BYTES)
    @example("0", b'{"uuid": "u", "partitions": {"0": [1e999]}}')
    @example("0", b'{"uuid": "u", "partitions": {"0": [NaN]}}')
    @example("0", b'{"uuid": "u", "partitions": {"0": [0], "0": [1]}}')
    @example("0", b'{"uuid": "../x", "partitions": {}}')
    @example("0", b'{"topics": {"t": 1000000000}}')
    @example("0", b'{"topics": {}, "patterns": [["(a+)+b", 1], ["(", 1]]}')
    @example("0", b"creator:127.0.0.1:9092")
    @example("0", b"9" * 30)
    @example("0", b"9" * 5000)
    @example("0", _NESTED)
    @example("0", _NESTED_IN_KEYS)
    def test_any_bytes_are_a_value_or_a_value_error(self, name: str, data: bytes) -> None:
        """The error's text is short and can be printed, so that it can be logged."""
        for read in _READERS:
            try:
                read(name, data)
            except ValueError as error:
                self.assertLess(len(str(error)), 1000)
                self.assertTrue(str(error).isprintable(), str(error))

    def test_half_of_a_surrogate_pair_is_refused(self) -> None:
        """No answer to a client could hold it; a whole pair is read."""
        for text in (
            '{"host": "\\ud800", "port": 1, "instance": "a"}',
            '{"\\uDFFF": 1}',
            '"\ud800"',
            '["\\udc00\\ud800"]',
        ):
            for read in (BrokerInfo.decode, lambda name, data: load_json(data)):
                with self.assertRaises(ValueError) as raised:
                    read("0", text.encode(errors="surrogatepass"))
                self.assertTrue(str(raised.exception).isprintable())
        with self.assertRaises(ValueError):
            load_json('"\ud800"')
        self.assertEqual(load_json(b'"\\ud83d\\ude00 \\u00e4 \xc3\xa4"'), "\U0001f600 \u00e4 \u00e4")

    def test_the_largest_node_is_read_or_refused_at_once(self) -> None:
        """The text of a refusal stays short too."""
        for value in ([0] * 300_000, {"topics": {}, "patterns": [["a" * 1000, 1]] * 1000}, {"brokers": [1] * 300_000}):
            for read in _READERS:
                try:
                    read("t", json.dumps(value).encode())
                except ValueError as error:
                    self.assertLess(len(str(error)), 1000)

    @_PATIENT
    @given(
        st.builds(
            TopicEntry,
            st.uuids().map(str),
            st.dictionaries(st.integers(0, 1 << 20), st.lists(st.integers(0, 1 << 20)).map(tuple)),
            st.dictionaries(st.text(max_size=20), st.integers(-1, 1 << 60)),
        )
    )
    def test_a_topic_is_decoded_as_it_was_encoded(self, entry: TopicEntry) -> None:
        """Partitions, brokers and settings are arbitrary."""
        self.assertEqual(decode_entry("t", json.dumps(entry.to_json()).encode()), entry)

    @_PATIENT
    @given(st.integers(0, (1 << 63) - 1))
    def test_a_position_is_decoded_as_it_was_encoded(self, position: int) -> None:
        """Every position from 0 to the largest has one form."""
        self.assertEqual(decode_position(encode_position(position)), position)

    def test_an_excerpt_is_short_and_printable(self) -> None:
        """A log line must have neither control characters nor a thousand digits."""
        for value in ("\x1b[2J" * 100, b"\n" * 500, _HUGE, ["\n"] * 10**6, {"\n": 1}, 1.5, None):
            self.assertTrue(excerpt(value).isprintable())
            self.assertLess(len(excerpt(value)), 300)
