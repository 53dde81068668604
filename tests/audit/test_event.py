"""Tests of logd.audit.event and logd.audit.windows."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.audit.event import MOST_EVENT_BYTES, MOST_NAME, AuditEvent, Reporter, Tier, decode_event, encode_event
from logd.audit.windows import MOST_WIDTH, check_width, window_of
from logd.checkedjson import INT32_MAX, INT64_MAX

_NAMES = st.text(st.characters(categories=["L", "N", "P"]), max_size=MOST_NAME)
_NUMBERS = st.integers(0, INT64_MAX)


@st.composite
def events(draw: st.DrawFn) -> AuditEvent:
    """Return any event that can be encoded."""
    tier = draw(st.sampled_from(Tier))
    width = draw(st.integers(1, MOST_WIDTH))
    ranges = draw(st.dictionaries(st.integers(0, INT32_MAX), st.tuples(_NUMBERS, _NUMBERS), max_size=4))
    return AuditEvent(
        cluster=draw(_NAMES),
        tier=tier,
        group=draw(_NAMES) if tier is Tier.CONSUMED else "",
        topic=draw(st.text("abc._-09", min_size=1, max_size=20).filter(lambda name: name not in (".", ".."))),
        window=window_of(draw(_NUMBERS), width),
        width=width,
        origin=draw(_NAMES),
        reporter=Reporter(draw(_NAMES), draw(st.integers(0, INT32_MAX)), draw(_NAMES)),
        sequence=draw(_NUMBERS),
        count=draw(_NUMBERS),
        bytes=draw(st.none() | _NUMBERS),
        first={partition: min(pair) for partition, pair in ranges.items()},
        last={partition: max(pair) for partition, pair in ranges.items()},
        open=draw(st.booleans()),
        unsettled=draw(_NUMBERS),
    )


def valid(**changes: Any) -> bytes:
    """Return a valid event with some fields changed; a field that is changed to ``...`` is left out."""
    fields: dict[str, Any] = {
        "cluster": "c", "tier": "consumed", "group": "g", "topic": "t", "window": 60_000, "width": 60_000,
        "origin": "web1", "reporter": {"server": "web1", "process": 1, "instance": "i"}, "sequence": 0, "count": 1,
    }  # fmt: skip
    fields |= changes
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


def each(name: str, *values: Any) -> list[dict[str, Any]]:
    """Return a change of one field for each value."""
    return [{name: value} for value in values]


class EventTests(SynchronousTestCase):
    """``encode_event`` and ``decode_event``."""

    @given(events())
    def test_an_event_is_read_as_it_was_written(self, event: AuditEvent) -> None:
        """No field is lost or changed by its way through JSON."""
        self.assertEqual(decode_event(encode_event(event)), event)

    def test_the_fields_have_the_names_of_the_format(self) -> None:
        """Other programs read the events too."""
        event = AuditEvent(
            cluster="c", tier=Tier.CONSUMED, group="g", topic="t", window=120_000, width=60_000, origin="web1",
            reporter=Reporter("host", 7, "uuid"), sequence=3, count=2, bytes=10, first={0: 5}, last={0: 9},
        )  # fmt: skip
        self.assertEqual(
            json.loads(encode_event(event)),
            {
                "cluster": "c", "tier": "consumed", "group": "g", "topic": "t", "window": 120000, "width": 60000,
                "origin": "web1", "reporter": {"server": "host", "process": 7, "instance": "uuid"}, "sequence": 3,
                "count": 2, "bytes": 10, "first": {"0": 5}, "last": {"0": 9},
            },
        )  # fmt: skip

    def test_a_field_that_is_not_known_is_left_out(self) -> None:
        """A later release may add fields."""
        self.assertEqual(decode_event(valid(later=1)), decode_event(valid()))

    def test_hostile_values_are_refused(self) -> None:
        """Anyone can publish to the topic: each wrong value is a ValueError with a short text, and nothing else."""
        wrong: list[dict[str, Any]] = [
            *({name: ...} for name in ("cluster", "tier", "topic", "window", "width", "origin", "reporter")),
            *({name: ...} for name in ("group", "sequence", "count")),
            *each("count", -1, 1 << 63, 1.5, "1", True, None, []),
            *each("window", -60_000, 60_001, 1 << 63),
            *each("width", 0, -1, MOST_WIDTH + 1),
            *each("topic", "", "..", "a/b", "x" * 300, 3),
            *each("origin", "x" * (MOST_NAME + 1), "a\nb", None, 1),
            *each("tier", "", "Produced", None, [], {}),
            *each("reporter", None, "x", {}, {"server": "a", "process": -1, "instance": "i"}),
            *(
                {"first": {"0": 1}} | last
                for last in each("last", *({}, {"0": 0}, {"1": 1}, {"-1": 1}, {"0": -1}, [], None))
            ),
            {"open": 1},
            {"unsettled": -1},
            {"bytes": -1},
        ]
        for changes in wrong:
            error = self.assertRaises(ValueError, decode_event, valid(**changes))
            self.assertLess(len(str(error)), 500)
        for payload in (None, b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000, b" " * (MOST_EVENT_BYTES + 1)):
            error = self.assertRaises(ValueError, decode_event, payload)
            self.assertLess(len(str(error)), 500)

    @given(
        st.binary(max_size=200) | st.recursive(st.none() | _NUMBERS | _NAMES, st.lists).map(json.dumps).map(str.encode)
    )
    def test_any_bytes_are_an_event_or_a_value_error(self, payload: bytes) -> None:
        """Nothing else is raised."""
        with contextlib.suppress(ValueError):
            decode_event(payload)


class WindowTests(SynchronousTestCase):
    """Windows of time."""

    @given(st.integers(0, INT64_MAX), st.integers(1, MOST_WIDTH), st.integers(1, 50))
    def test_a_time_lies_in_its_window(self, time: int, width: int, factor: int) -> None:
        """Windows of a multiple of the width are made of whole windows, so their counts are sums."""
        start = window_of(time, width)
        self.assertEqual(start % width, 0)
        self.assertTrue(start <= time < start + width)
        self.assertEqual(window_of(start, width * factor), window_of(time, width * factor))

    def test_a_width_is_bounded(self) -> None:
        """A window of no width would hold nothing."""
        self.assertEqual(check_width(60_000), 60_000)
        for width in (0, -1, MOST_WIDTH + 1, True, 1.0):
            self.assertRaises(ValueError, check_width, width)
