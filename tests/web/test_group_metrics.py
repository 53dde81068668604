"""Tests of logd.web.group_metrics: the lag of groups for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CoordinationUnavailable
from logd.web.console.rows import GroupRow
from logd.web.group_metrics import MOST_GROUPS, READ_SECONDS, SCRAPED_SECONDS, GroupLagMetrics


def row(name: str, lag: int | None) -> GroupRow:
    """Return a group with a lag."""
    seconds = None if lag is None else lag / 10
    return GroupRow(name, "native", 1, ("t",), 1, lag, None, seconds, None, None, ())


class GroupLagMetricsTests(SynchronousTestCase):
    """Scrapes and readings."""

    def setUp(self) -> None:
        """Make a collector whose readings are counted."""
        self.clock, self.readings = Clock(), 0
        self.rows = [row("a", 50), row("unknown", None)]
        self.metrics = GroupLagMetrics(self.clock, self.read)
        self.registry = CollectorRegistry()
        self.registry.register(self.metrics)
        self.metrics.start()
        self.addCleanup(self.metrics.stop)

    async def read(self) -> list[GroupRow]:
        """Read the rows."""
        self.readings += 1
        if not self.rows:
            raise CoordinationUnavailable("away")
        return self.rows

    def scrape(self) -> str:
        """Return the page."""
        return generate_latest(self.registry).decode()

    def test_the_lag_is_read_while_somebody_scrapes(self) -> None:
        """Without a scrape for some time nothing is read, and nothing old is shown."""
        self.clock.pump([READ_SECONDS] * 3)
        self.assertEqual(self.readings, 0)
        self.assertNotIn("a", self.scrape().split('group="'))
        self.clock.advance(READ_SECONDS)
        page = self.scrape()
        self.assertIn('logd_group_lag_bytes{group="a"} 50.0', page)
        self.assertIn('logd_group_lag_seconds{group="a"} 5.0', page)
        self.assertNotIn("unknown", page)
        before = self.readings
        self.clock.pump([READ_SECONDS] * int(SCRAPED_SECONDS / READ_SECONDS + 10))
        self.assertLess(self.readings - before, SCRAPED_SECONDS / READ_SECONDS + 2)
        self.assertNotIn('group="a"', self.scrape())

    def test_labels_are_bounded(self) -> None:
        """The groups with the largest lag have their own; the others are together."""
        self.rows = [row(f"g{number}", number) for number in range(MOST_GROUPS + 3)]
        self.scrape()
        self.clock.advance(READ_SECONDS)
        page = self.scrape()
        self.assertEqual(page.count("logd_group_lag_bytes{"), MOST_GROUPS + 1)
        self.assertIn('logd_group_lag_bytes{group=""} 3.0', page)

    def test_a_tree_that_is_away_leaves_the_lag_out(self) -> None:
        """An old number would look like a group that stands still."""
        self.scrape()
        self.clock.advance(READ_SECONDS)
        self.rows = []
        self.scrape()
        self.clock.advance(READ_SECONDS)
        self.assertNotIn('group="a"', self.scrape())
