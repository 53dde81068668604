"""The audit by Spark, beside the one of ``logd audit`` on the same events."""

from __future__ import annotations

from random import Random

from logd.audit.counter import WindowCounter
from logd.audit.event import ALL_ORIGINS, AuditEvent, Reporter, Tier, encode_event
from logd.audit.reconciliation import Reconciliation
from logd.audit.spans import Span
from logd.audit.verdict_fields import as_fields
from logd.audit.verdicts import judge
from logd.cli.audit.verdict_table import write_verdicts
from tests.integration.spark.rig import SparkTestCase, shared_folder, why_not

if why_not() is None:
    from logd.spark.audit import combined, reconcile
    from logd.spark.driver.verdict_tables import is_verdicts

HOUR = 60 * 60 * 1000
HOURS = 60
NOW = 1000 * HOUR


def reported(hours: int) -> list[AuditEvent]:
    """Return the events of two producers, a mirror that renames, readers on both clusters and an import."""
    counters = {
        name: WindowCounter(tier, Reporter(name, 1, name), HOUR // 2, group, cluster)
        for name, tier, group, cluster in (
            ("web1", Tier.PRODUCED, "", "A"), ("web2", Tier.PRODUCED, "", "A"), ("mirror", Tier.MIRRORED, "", "B"),
            ("reader", Tier.CONSUMED, "g", "A"), ("offline", Tier.CONSUMED, "g", "B"), ("spark", Tier.LOADED, "", "B"),
        )
    }  # fmt: skip
    mirror = counters["mirror"]
    mirror.opens, mirror.source, mirror.copies = False, "A", {"t": "east.t"}
    events: list[AuditEvent] = []
    for hour in range(hours):
        time = hour * HOUR + HOUR // 2
        here, there = Span(0, hour * 10, hour * 10 + 9), Span(0, hour * 10 + 500, hour * 10 + 509)
        for name in ("web1", "web2"):
            counters[name].add("t", time, name, 5, 50, time, here)
        mirror.add("t", time, ALL_ORIGINS, 10, None, time, here, [there])
        for name in ("web1", "web2"):
            if hour != 10:
                counters["reader"].add("t", time, name, 4 if hour == 30 and name == "web2" else 5, 50, time, here)
            if 5 < hour < 50:
                counters["offline"].add("east.t", time, name, 6 if hour == 40 else 5, 50, time, there)
            counters["spark"].add("east.t", time, name, 5, None, time, there)
        for name, counter in counters.items():
            taken = counter.take_events(time, end=True)
            # One event of the import is lost, and one producer is killed before its last report.
            lost = (name == "spark" and hour == 20) or (name == "web2" and hour == hours - 1)
            events += [event for event in taken if event.open or not lost]
    return events


def sums_of(events: list[AuditEvent]) -> Reconciliation:
    """Return the sums of events, in windows of an hour."""
    sums = Reconciliation(HOUR)
    sums.add_all(events)
    return sums


class SparkAuditTests(SparkTestCase):
    """``reconcile``."""

    def test_the_verdicts_are_those_of_the_command(self) -> None:
        """Over several days, with repeated events, in any order, and with messages that are no events."""
        events = reported(HOURS)
        random = Random(0)
        rows = [*events, *random.sample(events, 50)]
        random.shuffle(rows)
        values = [encode_event(each) for each in rows] + [b"", b"{", b"null"]
        table = self.spark.createDataFrame([(bytearray(each),) for each in values] + [(None,)], "value binary")
        found = [row.asDict() for row in reconcile(table, width=HOUR, grace=0, now=NOW).collect()]
        expected = [as_fields(verdict) for verdict in judge(sums_of(events), NOW, grace=0)]
        order = lambda row: tuple(map(str, row.values()))  # noqa: E731
        self.assertEqual(sorted(found, key=order), sorted(expected, key=order))
        states = {(row["tier"], row["state"]) for row in found}
        self.assertLessEqual(
            {("consumed", "missing"), ("consumed", "duplicated"), ("loaded", "unaccounted"), ("mirrored", "complete")},
            states,
        )

    def test_the_verdicts_of_months_are_put_together(self) -> None:
        """Those that the command has written from run to run, and on two clusters, are those on all events at once."""
        events = reported(HOURS)
        half = [each for each in events if each.window < 30 * HOUR]
        folders = [f"{shared_folder()}/{self.name()}{number}" for number in range(2)]
        for folder, known, now in (
            (folders[0], half, 31 * HOUR),
            (folders[0], events, NOW),
            (folders[1], half, 30 * HOUR),
        ):
            write_verdicts(list(judge(sums_of(known), now, grace=HOUR)), folder)
        tables = [self.spark.read.parquet(each) for each in folders]
        found = [row.asDict() for row in combined([*tables, combined(tables)]).collect()]
        expected = [as_fields(verdict) for verdict in judge(sums_of(events), NOW, grace=HOUR)]
        order = lambda row: tuple(map(str, row.values()))  # noqa: E731
        self.assertEqual(sorted(found, key=order), sorted(expected, key=order))
        self.assertEqual([is_verdicts(each) for each in (tables[0], self.spark.range(1))], [True, False])
