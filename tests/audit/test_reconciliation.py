"""Tests of logd.audit.reconciliation and logd.audit.verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.audit import reconciliation as reconciliation_module
from logd.audit.counter import WindowCounter
from logd.audit.event import ALL_ORIGINS, AuditEvent, Reporter, Tier, decode_event, encode_event
from logd.audit.reconciliation import Reconciliation, TooManyCounts
from logd.audit.spans import Span
from logd.audit.verdicts import OriginDifference, Verdict, judge

WIDTH = 10
#: A time at which every window of these tests is judged.
LATE = 1_000_000


@define
class Pipeline:
    """Reporters of one topic, and the log between them: one partition, of positions that rise by one."""

    events: list[AuditEvent] = field(factory=list)
    #: Time, origin and position of each message that is stored.
    log: list[tuple[int, str, int]] = field(factory=list)
    _counters: list[tuple[WindowCounter, bool]] = field(factory=list)

    def counter(
        self, tier: Tier, server: str, *, group: str = "", cluster: str = "A", dies: bool = False
    ) -> WindowCounter:
        """Return the counter of one more reporter; one that dies reports nothing but what it has begun."""
        reporter = Reporter(server, 1, f"{tier}-{len(self._counters)}")
        made = WindowCounter(tier, reporter, WIDTH, group, cluster)
        self._counters.append((made, dies))
        return made

    def produce(self, counter: WindowCounter, time: int, messages: int = 1, *, stored: int | None = None) -> None:
        """Acknowledge messages of one time to a producer; ``stored`` of them are in the log, all by default."""
        server = counter.reporter.server
        for number in range(messages if stored is None else stored):
            position = self.log[-1][2] + 1 if self.log else 0
            self.log.append((time, server, position))
            if number < messages:
                counter.add("t", time, server, 1, 5, time, Span(0, position, position))

    def consume(self, counter: WindowCounter, messages: Iterable[tuple[int, str, int]], *, opened: bool = True) -> None:
        """Count messages of the log in a tier that reads."""
        for time, server, position in messages:
            origin, size = (server, 5) if opened else (ALL_ORIGINS, None)
            counter.add("t", time, origin, 1, size, time, Span(0, position, position))

    def verdicts(self, now: int = LATE, *, shuffled: Random | None = None, grace: int = 5) -> list[Verdict]:
        """Return the verdicts on all tiers but those that produce."""
        for counter, dies in self._counters:
            events = counter.take_events(now, end=True)
            self.events += [event for event in events if event.open or not dies]
        events = [decode_event(encode_event(event)) for event in self.events]
        if shuffled is not None:
            events += shuffled.sample(events, len(events) // 2)
            shuffled.shuffle(events)
        sums = Reconciliation(WIDTH)
        sums.add_all(events)
        return [each for each in judge(sums, now, grace=grace) if each.tier is not Tier.PRODUCED]


def brief(verdicts: Iterable[Verdict]) -> list[tuple[int, int, int, int, int, int]]:
    """Return window, expected, seen, missing, duplicated and unaccounted of each verdict."""
    return [(v.window, v.expected, v.seen, v.missing, v.duplicated, v.unaccounted) for v in verdicts]


class VerdictTests(SynchronousTestCase):
    """``judge``."""

    def setUp(self) -> None:
        """Make a pipeline of one producer and one group."""
        self.pipe = Pipeline()
        self.producer = self.pipe.counter(Tier.PRODUCED, "web1")
        self.group = self.pipe.counter(Tier.CONSUMED, "reader", group="g")

    def test_what_is_complete_is_complete(self) -> None:
        """Every message of every window was seen once."""
        for time in (1, 5, 12):
            self.pipe.produce(self.producer, time, 3)
        self.pipe.consume(self.group, self.pipe.log)
        self.assertEqual(brief(self.pipe.verdicts()), [(0, 6, 6, 0, 0, 0), (10, 3, 3, 0, 0, 0)])

    def test_a_missing_message_is_named_with_its_server_and_window(self) -> None:
        """The verdict has the positions among which it was."""
        other = self.pipe.counter(Tier.PRODUCED, "web2")
        self.pipe.produce(self.producer, 1, 3)
        self.pipe.produce(other, 2, 3)
        self.pipe.produce(self.producer, 3, 3)
        self.pipe.consume(self.group, self.pipe.log[:4] + self.pipe.log[5:])
        (verdict,) = self.pipe.verdicts()
        self.assertTrue(verdict.failed)
        self.assertEqual(verdict.differences, (OriginDifference("web2", missing=1),))
        self.assertEqual((verdict.window, verdict.first, verdict.last), (0, {0: 0}, {0: 8}))

    def test_a_repeated_message_is_no_loss(self) -> None:
        """A producer that sends again after a lost answer stores a message twice."""
        self.pipe.produce(self.producer, 1, 3, stored=4)
        self.pipe.consume(self.group, self.pipe.log)
        self.assertEqual(brief(self.pipe.verdicts()), [(0, 3, 4, 0, 1, 0)])

    def test_one_lost_and_one_doubled_message_differ_in_bytes_alone(self) -> None:
        """The counts agree; sizes tell, if they differ."""
        self.pipe.produce(self.producer, 1, 3)
        self.pipe.consume(self.group, self.pipe.log[:2])
        self.group.add("t", 1, "web1", 1, 6, 1, Span(0, 2, 2))
        (verdict,) = self.pipe.verdicts()
        self.assertEqual((verdict.missing, verdict.duplicated), (0, 0))
        self.assertEqual(verdict.differences, (OriginDifference("web1", bytes_differ=True),))
        self.assertTrue(verdict.failed)

    def test_a_producer_that_died_is_unaccounted(self) -> None:
        """Its messages are more than was claimed, and no loss; another server's repeats are still told apart."""
        dead = self.pipe.counter(Tier.PRODUCED, "web2", dies=True)
        self.pipe.produce(self.producer, 1, 3, stored=4)
        self.pipe.produce(dead, 1, 5)
        self.pipe.consume(self.group, self.pipe.log)
        (verdict,) = self.pipe.verdicts()
        self.assertFalse(verdict.failed)
        self.assertEqual(
            verdict.differences, (OriginDifference("web1", duplicated=1), OriginDifference("web2", unaccounted=5))
        )

    def test_a_producer_that_died_beside_another_of_its_server_is_unaccounted(self) -> None:
        """The opening event tells that there was one."""
        dead = self.pipe.counter(Tier.PRODUCED, "web1", dies=True)
        self.pipe.produce(self.producer, 1, 3)
        self.pipe.produce(dead, 1, 5)
        self.pipe.consume(self.group, self.pipe.log)
        self.assertEqual(brief(self.pipe.verdicts()), [(0, 3, 8, 0, 0, 5)])

    def test_messages_of_unknown_fate_are_unaccounted(self) -> None:
        """A producer gave them up, and the broker had stored them."""
        self.pipe.produce(self.producer, 1, 3, stored=6)
        self.producer.unsettled("t", 1, "web1", 2, 1)
        self.pipe.consume(self.group, self.pipe.log)
        self.assertEqual(brief(self.pipe.verdicts()), [(0, 3, 6, 0, 1, 2)])

    def test_a_reader_that_died_is_no_loss(self) -> None:
        """Nobody knows what it had read."""
        dead = self.pipe.counter(Tier.CONSUMED, "reader2", group="g", dies=True)
        self.pipe.produce(self.producer, 1, 9)
        self.pipe.consume(self.group, [self.pipe.log[0], *self.pipe.log[5:]])
        self.pipe.consume(dead, self.pipe.log[1:5])
        self.assertEqual(brief(self.pipe.verdicts()), [(0, 9, 5, 0, 0, 4)])

    def test_what_a_group_has_not_read_yet_is_unaccounted(self) -> None:
        """It is behind; nothing says that anything is lost. What it began behind is none of its business."""
        for time in (1, 12, 25, 33):
            self.pipe.produce(self.producer, time, 3)
        self.pipe.consume(self.group, self.pipe.log[3:7])
        self.assertEqual(brief(self.pipe.verdicts()), [(10, 3, 3, 0, 0, 0), (20, 3, 1, 0, 0, 2), (30, 3, 0, 0, 0, 3)])

    def test_a_window_of_which_nothing_was_seen_is_missing(self) -> None:
        """The group has read what comes behind it."""
        for time in (1, 12, 25):
            self.pipe.produce(self.producer, time, 3)
        self.pipe.consume(self.group, self.pipe.log[:3] + self.pipe.log[6:])
        self.assertEqual(brief(self.pipe.verdicts())[1], (10, 3, 0, 3, 0, 0))

    def test_a_window_is_judged_after_its_grace_time(self) -> None:
        """Before, what differs may still come."""
        self.pipe.produce(self.producer, 1, 3)
        self.pipe.consume(self.group, [self.pipe.log[0], self.pipe.log[2]])
        self.assertEqual(brief(self.pipe.verdicts(14)), [(0, 3, 2, 0, 0, 1)])
        self.assertEqual(brief(self.pipe.verdicts(15)), [(0, 3, 2, 1, 0, 0)])

    def test_heads_of_batches_are_compared_with_the_sum_of_all_servers(self) -> None:
        """A tier that does not open batches knows no server."""
        other = self.pipe.counter(Tier.PRODUCED, "web2")
        self.pipe.produce(self.producer, 1, 3)
        self.pipe.produce(other, 1, 3)
        self.pipe.consume(self.group, [*self.pipe.log[:3], *self.pipe.log[4:]], opened=False)
        (verdict,) = self.pipe.verdicts()
        self.assertEqual(verdict.differences, (OriginDifference(ALL_ORIGINS, missing=1),))

    def test_foreign_producers_are_counted_beside_those_that_name_themselves(self) -> None:
        """A broker counts them by heads; each server that counts itself is still compared alone."""
        broker = self.pipe.counter(Tier.PRODUCED, "broker1")
        self.pipe.produce(self.producer, 1, 3)
        for position in (3, 4):
            self.pipe.log.append((1, "", position))
            broker.add("t", 1, ALL_ORIGINS, 1, None, 1, Span(0, position, position))
        self.pipe.consume(self.group, [self.pipe.log[0], *self.pipe.log[2:]])
        (verdict,) = self.pipe.verdicts()
        self.assertEqual(verdict.differences, (OriginDifference("web1", missing=1),))
        self.assertEqual(verdict.expected, 5)

    def mirror(self, source: str = "A", target: str = "B", copy: str = "") -> WindowCounter:
        """Return the counter of a mirror."""
        made = self.pipe.counter(Tier.MIRRORED, "mirror", cluster=target)
        made.source, made.opens, made.copies = source, False, {"t": copy} if copy else {}
        return made

    def copy(self, mirror: WindowCounter, messages: Iterable[tuple[int, str, int]], shift: int = 900) -> None:
        """Mirror messages of the log; positions of the target are those of the source and ``shift``."""
        for time, _, at in messages:
            copied = [Span(0, at + shift, at + shift)]
            mirror.add("t", time, ALL_ORIGINS, 1, None, time, Span(0, at, at), copied)

    def found(self, cluster: str = "B") -> dict[tuple[Tier, str, int], tuple[int, int, int, int]]:
        """Return expected, seen, missing and unaccounted of each tier, topic and window of a cluster."""
        return {
            (v.tier, v.topic, v.window): (v.expected, v.seen, v.missing, v.unaccounted)
            for v in self.pipe.verdicts()
            if v.cluster == cluster
        }

    def test_a_mirror_and_its_readers_are_compared_with_the_source(self) -> None:
        """A topic of the target has the source's messages, and those that were produced there."""
        mirror = self.mirror()
        self.pipe.produce(self.producer, 1, 4)
        self.pipe.produce(self.producer, 12, 4)
        left = [*self.pipe.log[:2], *self.pipe.log[3:]]
        self.copy(mirror, left)
        local = self.pipe.counter(Tier.PRODUCED, "web9", cluster="B")
        local.add("t", 1, "web9", 1, 5, 1, Span(0, 1000, 1000))
        reader = self.pipe.counter(Tier.CONSUMED, "reader", group="offline", cluster="B")
        for time, server, position in [*left, (1, "web9", 100)]:
            reader.add("t", time, server, 1, 5, time, Span(0, 900 + position, 900 + position))
        self.assertEqual(
            self.found(),
            {
                (Tier.MIRRORED, "t", 0): (4, 3, 1, 0),
                (Tier.MIRRORED, "t", 10): (4, 4, 0, 0),
                (Tier.CONSUMED, "t", 0): (5, 4, 1, 0),
                (Tier.CONSUMED, "t", 10): (4, 4, 0, 0),
            },
        )

    def test_a_reader_of_the_target_that_has_not_read_so_far_lacks_nothing(self) -> None:
        """It has read later windows of one partition, and earlier ones of another: the mirror says where they are."""
        mirror = self.mirror()
        for window in range(3):
            for partition in range(2):
                self.producer.add("t", window * 10, "web1", 1, 5, 1, Span(partition, window, window))
                spans = Span(partition, window, window), [Span(partition, window + 50, window + 50)]
                mirror.add("t", window * 10, ALL_ORIGINS, 1, None, 1, *spans)
        reader = self.pipe.counter(Tier.CONSUMED, "reader", group="offline", cluster="B")
        for partition, window in ((0, 0), (0, 1), (0, 2), (1, 0)):
            reader.add("t", window * 10, "web1", 1, 5, 1, Span(partition, window + 50, window + 50))
        found = self.found()
        self.assertEqual([found[Tier.CONSUMED, "t", start][2:] for start in (0, 10, 20)], [(0, 0), (0, 1), (0, 1)])

    def test_mirrors_under_other_names_in_a_chain_and_side_by_side(self) -> None:
        """Each cluster is compared with those from which its messages came, and with no other one."""
        self.pipe.produce(self.producer, 1, 4)
        self.copy(self.mirror(copy="east.t"), self.pipe.log)
        there = self.pipe.counter(Tier.PRODUCED, "web9", cluster="B")
        there.add("t", 1, "web9", 7, 5, 1, Span(0, 1000, 1006))
        self.copy(self.mirror(target="C"), self.pipe.log)
        again = self.mirror(source="B", target="D")
        for position in range(4):
            again.add("east.t", 1, ALL_ORIGINS, 1, None, 1, Span(0, 900 + position, 900 + position), [Span(0, 7, 7)])
        reader = self.pipe.counter(Tier.CONSUMED, "reader", group="g", cluster="B")
        reader.add("east.t", 1, "web1", 4, 20, 1, Span(0, 900, 903))
        self.assertEqual(self.found("C"), {(Tier.MIRRORED, "t", 0): (4, 4, 0, 0)})
        self.assertEqual(self.found("D"), {(Tier.MIRRORED, "east.t", 0): (4, 4, 0, 0)})
        self.assertEqual(self.found("B")[Tier.CONSUMED, "east.t", 0], (4, 4, 0, 0))

    def test_a_wrong_clock_raises_no_alarm(self) -> None:
        """Windows of a far future are never judged, those of a far past like all others; the rest is not disturbed."""
        for time in (1, 1 << 60, 21):
            self.pipe.produce(self.producer, time, 3)
        self.pipe.consume(self.group, [*self.pipe.log[:3], *self.pipe.log[6:]])
        found = {v.window: (v.pending, v.missing, v.unaccounted) for v in self.pipe.verdicts()}
        future = (1 << 60) - (1 << 60) % WIDTH
        self.assertEqual(found, {0: (False, 0, 0), 20: (False, 0, 0), future: (True, 0, 3)})

    def test_what_was_read_without_an_audit_is_not_missing(self) -> None:
        """A reader was audited, then not, then again: positions between the two are of unknown state."""
        for time in (1, 11, 21):
            self.pipe.produce(self.producer, time, 3)
        self.pipe.consume(self.group, self.pipe.log[:3])
        self.pipe.consume(self.pipe.counter(Tier.CONSUMED, "reader", group="g"), self.pipe.log[6:])
        self.assertEqual(brief(self.pipe.verdicts())[1], (10, 3, 0, 0, 0, 3))

    def test_a_reporter_of_which_an_event_is_missing_lacks_nothing_for_certain(self) -> None:
        """The event may have counted the messages."""
        mirror = self.mirror()
        for time in (1, 11, 21):
            self.pipe.produce(self.producer, time, 3)
            self.copy(mirror, self.pipe.log[-3:])
            self.pipe.events += mirror.take_events(time, end=True)
        del self.pipe.events[1]
        self.assertEqual(self.found()[Tier.MIRRORED, "t", 10], (3, 0, 0, 3))

    def test_a_part_of_what_a_mirror_publishes_at_once_is_no_alarm(self) -> None:
        """The positions come with the last event, so that the first ones do not say that all was read."""
        mirror = self.mirror()
        for time in (1, 11):
            self.pipe.produce(self.producer, time, 2)
        for time, _, at in self.pipe.log:
            mirror.add("t", time, ALL_ORIGINS, 1, None, time, Span(0, 0, 3), [Span(0, at, at)])
        events = mirror.take_events(20, end=True)
        self.pipe.events += events[:1]
        self.assertEqual(self.found()[Tier.MIRRORED, "t", 10], (2, 0, 0, 2))
        self.pipe.events += events[1:]
        self.assertEqual(self.found()[Tier.MIRRORED, "t", 10], (2, 2, 0, 0))

    @given(
        st.lists(st.tuples(st.integers(0, 39), st.sampled_from(["web1", "web2"]), st.integers(1, 4)), min_size=1),
        st.randoms(use_true_random=False),
    )
    def test_no_order_of_events_raises_a_false_alarm(self, sends: list[tuple[int, str, int]], random: Random) -> None:
        """Events late, repeated and in any order; retries, rebalances and deaths: nothing is missing that was read."""
        pipe = Pipeline()
        producers = [pipe.counter(Tier.PRODUCED, name, dies=random.random() < 0.2) for name in ("web1", "web2", "web1")]
        readers = [pipe.counter(Tier.CONSUMED, "r", group="g", dies=random.random() < 0.2) for _ in range(2)]
        loader = pipe.counter(Tier.LOADED, "spark")
        for time, server, messages in sends:
            producer = random.choice([each for each in producers if each.reporter.server == server])
            pipe.produce(producer, time, messages, stored=messages + random.choice((0, 0, 1)))
        for message in pipe.log:
            pipe.consume(random.choice(readers), [message] * random.choice((1, 1, 1, 2)))
        pipe.consume(loader, pipe.log[: random.randrange(len(pipe.log) + 1)])
        for verdict in pipe.verdicts(shuffled=random):
            self.assertFalse(verdict.missing, verdict)

    @given(
        st.lists(st.tuples(st.integers(0, 39), st.sampled_from(["web1", "web2"]), st.integers(1, 4)), min_size=3),
        st.randoms(use_true_random=False),
    )
    def test_each_lost_message_is_found(self, sends: list[tuple[int, str, int]], random: Random) -> None:
        """The sum of what is missing is what was taken from the middle of the log, by server and window."""
        pipe = Pipeline()
        producers = {name: pipe.counter(Tier.PRODUCED, name) for name in ("web1", "web2")}
        for time, server, messages in sends:
            pipe.produce(producers[server], time, messages)
        lost = random.sample(pipe.log[1:-1], random.randrange(len(pipe.log) - 1))
        pipe.consume(pipe.counter(Tier.CONSUMED, "r", group="g"), [each for each in pipe.log if each not in lost])
        found: dict[tuple[int, str], int] = {}
        for verdict in pipe.verdicts(shuffled=random):
            for each in verdict.differences:
                self.assertEqual((each.duplicated, each.unaccounted), (0, 0))
                found[verdict.window, each.origin] = each.missing
        wanted: dict[tuple[int, str], int] = {}
        for time, server, _ in lost:
            wanted[time - time % WIDTH, server] = wanted.get((time - time % WIDTH, server), 0) + 1
        self.assertEqual(found, wanted)


class ReconciliationTests(SynchronousTestCase):
    """``Reconciliation``."""

    def event(self, sequence: int = 0, **changes: object) -> AuditEvent:
        """Return an event of one producer."""
        event = AuditEvent(
            cluster="A", tier=Tier.PRODUCED, topic="t", window=0, width=WIDTH, origin="w",
            reporter=Reporter("w", 1, "i"), sequence=sequence, count=1, bytes=1,
        )  # fmt: skip
        return evolve(event, **changes)  # type: ignore[arg-type]

    def test_wider_windows_are_sums_of_narrow_ones(self) -> None:
        """A width that does not divide the one asked for cannot be compared, and is counted."""
        sums = Reconciliation(3 * WIDTH)
        sums.add_all([self.event(0), self.event(1, window=20), self.event(2, window=30), self.event(3, width=7)])
        (windows,) = sums.stages.values()
        self.assertEqual({start: window.count for start, window in windows.items()}, {0: 2, 30: 1})
        self.assertEqual(sums.unfit, 1)

    def test_only_the_topics_asked_for_are_kept(self) -> None:
        """The sequences of the others are known all the same."""
        sums = Reconciliation(WIDTH, frozenset({"u"}))
        sums.add_all([self.event(0, topic="u"), self.event(1), self.event(2, topic="u")])
        self.assertEqual([stage.topic for stage in sums.stages], ["u"])
        self.assertEqual(sums.lost_events, {})

    @given(st.permutations(range(12)), st.sets(st.integers(1, 10)))
    def test_events_that_are_missing_between_others_are_counted(self, order: list[int], lost: set[int]) -> None:
        """Each of the others is counted once, in any order, however often it comes."""
        sums = Reconciliation(WIDTH)
        kept = [sequence for sequence in order if sequence not in lost]
        sums.add_all(self.event(sequence) for sequence in [*kept, *reversed(kept)])
        self.assertEqual(sum(sums.lost_events.values()), len(lost))
        self.assertEqual(sums.repeated, len(kept))
        (windows,) = sums.stages.values()
        self.assertEqual(windows[0].count, len(kept))

    def test_memory_is_bounded(self) -> None:
        """The error says what to choose."""
        self.patch(reconciliation_module, "MOST_COUNTS", 20)
        sums = Reconciliation(WIDTH)
        with self.assertRaisesRegex(TooManyCounts, "choose topics"):
            for number in range(20):
                sums.add(self.event(number, window=WIDTH * number))
