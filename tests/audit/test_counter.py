"""Tests of logd.audit.counter and logd.audit.tallies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.audit import counter as counter_module
from logd.audit import tallies
from logd.audit.counter import WindowCounter
from logd.audit.event import ALL_ORIGINS, AuditEvent, Reporter, Tier
from logd.audit.spans import Span
from logd.audit.tallies import WindowTally, origin_of, tally_few, tally_heads, tally_messages
from logd.audit.windows import window_of
from logd.protocol import loops, slices
from logd.protocol.batch import encode_batch
from logd.protocol.entry import encode_gap
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.slices import DECODED_MESSAGES, result_of
from logd.protocol.wrapper import encode_wrapper

REPORTER = Reporter("web1", 1, "instance")


def counter(tier: Tier = Tier.PRODUCED) -> WindowCounter:
    """Return a counter of windows of 10 ms."""
    return WindowCounter(tier, REPORTER, 10)


def brief(events: list[AuditEvent]) -> list[tuple[int, str, int, bool]]:
    """Return window, origin, count and opening of each event."""
    return [(event.window, event.origin, event.count, event.open) for event in events]


class WindowCounterTests(SynchronousTestCase):
    """``WindowCounter``."""

    def test_a_window_is_opened_then_reported_at_its_end(self) -> None:
        """The first count is announced at once, the sum when no more messages of the window come."""
        counts = counter()
        counts.add("t", 103, "web1", 2, 20, 103)
        self.assertEqual(counts.next_due, 0)
        self.assertEqual(brief(counts.take_events(103)), [(100, "web1", 0, True)])
        counts.add("t", 104, "web1", 3, 30, 104, Span(0, 5, 9))
        counts.add("t", 105, "web2", 1, 1, 105, Span(0, 3, 4))
        self.assertEqual((counts.next_due, counts.take_events(109)), (110, []))
        events = counts.take_events(110)
        self.assertEqual(brief(events), [(100, "web1", 5, False), (100, "web2", 1, False)])
        self.assertEqual([event.sequence for event in events], [1, 2])
        self.assertEqual((events[0].bytes, events[0].first, events[0].last), (50, {0: 5}, {0: 9}))
        self.assertEqual((counts.next_due, counts.take_events(1000)), (None, []))

    def test_a_window_is_not_reported_while_a_batch_of_it_is_in_flight(self) -> None:
        """Its messages may be stored: a report without them would be taken for the whole."""
        counts = counter()
        counts.sent("t", 101, "web1", 101)
        self.assertEqual(brief(counts.take_events(500)), [(100, "web1", 0, True)])
        self.assertEqual((counts.next_due, counts.take_events(500, end=True)), (None, []))
        counts.settled("t", 101)
        counts.add("t", 101, "web1", 1, 1, 501)
        self.assertEqual(counts.next_due, 110)
        self.assertEqual(brief(counts.take_events(501)), [(100, "web1", 1, False)])

    def test_late_messages_open_their_window_again(self) -> None:
        """They are reported once for each width of time, and their counts are added to those before."""
        counts = counter()
        for now in (101, 152, 155, 163):
            counts.add("t", 101, "web1", 1, 1, now)
            counts.take_events(now)
        self.assertEqual(counts.next_due, 165)
        self.assertEqual(brief(counts.take_events(165)), [(100, "web1", 2, False)])

    def test_messages_of_unknown_fate_are_no_count(self) -> None:
        """They are told apart: nobody acknowledged them."""
        counts = counter()
        counts.unsettled("t", 101, "web1", 3, 101)
        events = counts.take_events(110)
        self.assertEqual([(event.count, event.unsettled) for event in events], [(0, 0), (0, 3)])

    def test_messages_without_a_time_are_not_counted(self) -> None:
        """They are in no window, in any tier."""
        counts = counter()
        counts.add("t", -1, "web1", 1, 1, 100)
        counts.sent("t", -1, "web1", 100)
        counts.unsettled("t", -1, "web1", 1, 100)
        self.assertEqual(counts.take_events(1000, end=True), [])

    def test_memory_is_bounded(self) -> None:
        """Counts of more servers are added up, and with too many windows the oldest is reported."""
        self.patch(counter_module, "MOST_ORIGINS", 2)
        self.patch(counter_module, "MOST_WINDOWS", 2)
        counts = counter()
        for number in range(4):
            counts.add("t", 101, f"web{number}", 1, 1, 101)
        counts.add("t", 111, "web0", 1, 1, 101)
        counts.add("t", 121, "web0", 1, 1, 101)
        closed = [event for event in counts.take_events(101) if not event.open]
        self.assertEqual(
            brief(closed), [(100, "web0", 1, False), (100, "web1", 1, False), (100, ALL_ORIGINS, 2, False)]
        )

    def test_each_window_beyond_the_most_has_an_older_one_reported(self) -> None:
        """However many are counted before events are taken; else times of distant years would fill the memory."""
        self.patch(counter_module, "MOST_WINDOWS", 10)
        counts = counter()
        counts.sent("t", 1000, "web0", 101)
        for number in range(200):
            counts.add("t", 1000 + 10 * number, "web0", 1, 1, 101)
        taken = [event.window for event in counts.take_events(101) if not event.open]
        self.assertEqual(taken, [1000 + 10 * number for number in range(1, 190)])
        counts.settled("t", 1000)
        self.assertEqual(brief(counts.take_events(101)), [(1000, "web0", 1, False)])
        self.assertEqual(len(counts.take_events(102, end=True)), 10)

    @given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 9))))
    def test_all_that_is_counted_is_reported_once(self, counted: list[tuple[int, str, int, int]]) -> None:
        """Whenever events are taken, their counts add up to the messages of each window and origin."""
        counts = counter()
        wanted: Counter[tuple[int, str]] = Counter()
        events: list[AuditEvent] = []
        now = 0
        for time, origin, messages, passed in counted:
            now += passed
            counts.add("t", time, origin, messages, messages, now)
            wanted[window_of(time, 10), origin] += messages
            events += counts.take_events(now)
        events += counts.take_events(now, end=True)
        found: Counter[tuple[int, str]] = Counter()
        for event in events:
            found[event.window, event.origin] += event.count
        self.assertEqual(+found, +wanted)
        self.assertEqual([event.sequence for event in events], list(range(len(events))))


def message(time: int | None, server: str | None = "web1", key: bytes | None = None) -> Message:
    """Return a message of 5 bytes."""
    return Message(b"hello", key=key, timestamp=time, headers=() if server is None else [("server", server.encode())])


class TallyTests(SynchronousTestCase):
    """``tally_messages``, ``tally_heads`` and ``origin_of``."""

    def test_messages_of_one_server_and_window_are_one_tally(self) -> None:
        """The bytes are those of keys and values."""
        self.assertEqual(tally_messages([message(100), message(109, key=b"k")], 10), [WindowTally(100, "web1", 2, 11)])

    def test_other_messages_are_told_apart(self) -> None:
        """Those without a time are left out."""
        found = tally_messages(
            [message(100), message(110), message(101, "web2"), message(None), message(102, None)], 10
        )
        self.assertEqual(
            found,
            [
                WindowTally(100, "web1", 1, 5),
                WindowTally(110, "web1", 1, 5),
                WindowTally(101, "web2", 1, 5),
                WindowTally(102, "", 1, 5),
            ],
        )
        self.assertEqual(tally_messages([message(None)], 10), [])

    def test_a_batch_counts_in_the_window_of_its_newest_time(self) -> None:
        """All tiers agree on it, those that see only its head included."""
        messages = [message(100), message(125), message(110)]
        self.assertEqual(tally_messages(messages, 10, 125), [WindowTally(125, "web1", 3, 15)])
        self.assertEqual(tally_heads(encode_batch(messages, "gzip"), 10), [WindowTally(125, ALL_ORIGINS, 3, None)])

    def test_the_heads_of_a_mixed_set_are_counted(self) -> None:
        """Gaps and entries without a time count nothing; wrappers are opened."""
        gap = encode_gap(20) + bytes(11)
        data = b"".join(
            (
                loops.encode_set([message(100), message(None, None), Message(b"plain")]),
                gap,
                wrap([message(112), message(113)], "gzip"),
                encode_batch([message(105)]),
            )
        )
        self.assertEqual(
            tally_heads(data, 10), [WindowTally(100, ALL_ORIGINS, 2, None), WindowTally(112, ALL_ORIGINS, 2, None)]
        )

    def test_a_wrapper_is_opened_in_slices(self) -> None:
        """A few hundred bytes may hold a million messages, which are not in memory together."""
        slices: list[int] = []

        def tally(messages: Sequence[Message], width: int) -> list[WindowTally]:
            slices.append(len(messages))
            return tally_messages(messages, width)

        self.patch(tallies, "tally_messages", tally)
        data = encode_wrapper("gzip", loops.encode_set([message(100 + number // 5000) for number in range(7000)]))
        self.assertEqual(tally_heads(data, 1), [
            WindowTally(100, ALL_ORIGINS, 5000, None), WindowTally(101, ALL_ORIGINS, 2000, None)
        ])  # fmt: skip
        self.assertLessEqual(max(slices), DECODED_MESSAGES)

    @given(
        st.lists(st.tuples(st.sampled_from(["plain", "timed", "wrapper", "batch", "gap"]), st.integers(1, 9))),
        st.randoms(),
    )
    def test_the_tallies_in_steps_are_those_of_each_message(self, kinds: list[tuple[str, int]], random: Random) -> None:
        """However small the steps are."""
        pieces: list[bytes] = []
        expected: Counter[int] = Counter()
        for kind, count in kinds:
            times = [random.randrange(40) for _ in range(count)]
            messages = [message(None if kind == "plain" else time) for time in times]
            if kind == "gap":
                pieces.append(encode_gap(30) + bytes(21))
            elif kind == "batch":
                pieces.append(encode_batch(messages, "gzip"))
                expected[max(times) // 10] += count
            else:
                pieces.append(wrap(messages, "gzip") if kind == "wrapper" else loops.encode_set(messages))
                if kind != "plain":
                    expected.update(time // 10 for time in times)
        data = b"".join(pieces)
        with mock.patch.object(tallies, "DECODED_MESSAGES", 3), mock.patch.object(slices, "DECODED_MESSAGES", 2):
            found = result_of(tally_few(data, 10, 100))
        assert found is not None
        self.assertEqual({tally.time // 10: tally.messages for tally in found}, expected)
        self.assertEqual(Counter({t.time // 10: t.messages for t in tally_heads(data, 10)}), expected)

    def test_a_wrapper_above_the_bounds_is_in_no_tally(self) -> None:
        """Of the others all messages are."""
        data = wrap([message(100)] * 10, "gzip") + wrap([message(100)] * 9, "gzip")
        found = result_of(tally_few(data, 10, 1, (1 << 20, 9)))
        self.assertEqual(found, [WindowTally(100, ALL_ORIGINS, 9, None)])

    def test_very_many_windows_are_not_held(self) -> None:
        """Messages with any times would fill the memory, until the set is stored."""
        data = loops.encode_set([message(time) for time in range(100)])
        self.assertIsNone(result_of(tally_few(data, 10, 9)))
        self.assertEqual(result_of(tally_few(data, 10, 10)), tally_heads(data, 10))

    def test_the_heads_of_messages_outside_batches_are_counted(self) -> None:
        """In one window or several, and without a time in none."""
        data = loops.encode_set([message(101), message(109), message(100)])
        self.assertEqual([(window_of(each.time, 10), each.messages) for each in tally_heads(data, 10)], [(100, 3)])
        data += loops.encode_set([message(110), message(None)])
        self.assertEqual([each.messages for each in tally_heads(data, 10)], [3, 1])
        self.assertEqual(tally_heads(loops.encode_set([message(None)]), 10), [])
        self.assertEqual(tally_heads(b"", 10), [])

    def test_a_header_that_no_event_can_have_is_no_origin(self) -> None:
        """A message may have any headers."""
        for value in (None, b"x" * 300, b"a\nb", b"*"):
            self.assertEqual(origin_of((("server", value),)), "")
        self.assertEqual(origin_of((("other", b"x"), ("server", b"web1"), ("server", b"web2"))), "web1")
