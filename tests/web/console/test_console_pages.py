"""Tests of the console's pages over a broker in memory: what they show, what they escape, and whom they refuse."""

from __future__ import annotations

import os
import time
import tracemalloc
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from logd.audit.event import Tier
from logd.audit.verdicts import Verdict
from logd.broker.security.requester import Requester
from logd.client.admin.lag import PartitionLag
from logd.client.starting_positions import Time
from logd.config.security import SecuritySettings
from logd.coord.groups.inspection import GroupEntry
from logd.coord.registries.access_rules import add_rule
from logd.errors import (
    ClusterAuthorizationFailed,
    CoordinationUnavailable,
    InvalidRequest,
    LogdError,
    TopicAuthorizationFailed,
    UnknownTopic,
)
from logd.security.access_rules import AccessRule, Effect, Match, Operation, ResourceType
from logd.topic import TopicEntry
from logd.web.console.history import MOST_SAMPLES, SERIES, History
from logd.web.console.pages import Asked, ConsolePages, NoPage, Page, parse_place
from logd.web.console.rates import Rates
from logd.web.console.rendering import Templates
from logd.web.console.rows import GroupProblem, GroupRow
from logd.web.console.sources import ConsoleSources
from logd.web.console.texts import as_hex, as_json, as_text, duration, moment, number, retention, size
from tests.broker.rig import BrokerTestCase
from tests.broker.security.test_native_rights import change_rule
from tests.log.entries import plain

COMMON = {
    "broker": 0,
    "principal": "",
    "secured": False,
    "path": "",
    "query": "",
    "token": "token",
    "section": "",
}


class PagesTestCase(BrokerTestCase):
    """A broker whose console is asked."""

    def setUp(self) -> None:
        """Make the parts of a console."""
        super().setUp()
        self.sources = ConsoleSources(self.clock, lambda: self.broker, lambda: self.access.client)
        self.pages = ConsolePages(self.sources)
        self.templates = Templates()

    def asked(self, *path: str, principal: str = "", **query: str) -> Asked:
        """Return a request for a page."""
        requester = Requester(principal or "anonymous", "127.0.0.1", bool(principal))
        return Asked(requester, self.broker.authorizer, path, query)

    def page(self, *path: str, principal: str = "", **query: str) -> str:
        """Return a page as HTML."""
        making = Deferred.fromCoroutine(self.pages.page(self.asked(*path, principal=principal, **query)))
        self.settle()
        page: Page = self.successResultOf(making)
        return self.templates.page(page, COMMON)

    def refused(self, kind: type[LogdError], *path: str, **query: str) -> str:
        """Return the text of the error in a page's place."""
        making = Deferred.fromCoroutine(self.pages.page(self.asked(*path, **query)))
        self.settle()
        return str(self.failureResultOf(making, kind).value)


class PagesTests(PagesTestCase):
    """The pages that need this broker alone."""

    def test_the_cluster_with_what_is_wrong(self) -> None:
        """Brokers that are not registered are named, with what they lead."""
        self.create("t", 2)
        self.broker.topics.show("elsewhere", TopicEntry("u" * 8, {0: (7,)}))
        text = self.page()
        self.assertIn("broker 7 is not registered; it leads 1 partition", text)
        self.assertIn("broker.example:6667", text)

    def test_topics_are_found_sorted_and_paged(self) -> None:
        """A hundred to a page; the number of all is told."""
        for name in range(250):
            self.broker.topics.show(f"t{name:03d}", TopicEntry("u" * 8, {0: (0,)}))
        self.assertIn("1 to 100 of 250 topics", self.page("topics"))
        self.assertIn("201 to 250 of 250 topics", self.page("topics", page="3"))
        self.assertIn("201 to 250 of 250 topics", self.page("topics", page="99"))
        found = self.page("topics", q="t24")
        self.assertIn("<p>10 topics</p>", found)
        self.assertIn("sort = ", self.refused(InvalidRequest, "topics", sort="colour"))
        self.assertIn("page = ", self.refused(InvalidRequest, "topics", page="x"))

    def test_a_name_that_no_group_can_have_is_that_of_no_group(self) -> None:
        """It comes from an address that a person has typed, and is no defect of the page."""
        for name in ("a/b", "..", "a\0b"):
            self.assertIn("there is no group", self.refused(LogdError, "groups", name))

    def test_a_topic_with_its_partitions(self) -> None:
        """Positions are those of the logs; of partitions elsewhere the reason is told."""
        self.create("t", 1, retention_ms=60_000)
        self.produce(self.connect(), "t", plain(b"hello"))
        text = self.page("topics", "t")
        self.assertIn("1.0 min" if "1.0 min" in text else "60 s", text)
        self.assertIn("retention.ms", text)
        self.assertNotIn("for ever", text)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.broker.topics.show("t", evolve(entry, kafka_settings={"cleanup.policy": "compact"}))
        self.assertIn("for ever", self.page("topics", "t"))
        self.broker.topics.show("away", TopicEntry("u" * 8, {0: (7,)}))
        self.assertIn("broker 7 is not registered", self.page("topics", "away"))
        self.assertIn("there is no topic", self.refused(UnknownTopic, "topics", "none"))

    def test_names_and_queries_are_escaped(self) -> None:
        """Whatever a link has in it."""
        evil = "<script>alert(1)</script>"
        self.assertNotIn(evil, self.page("topics", q=evil))
        self.assertIn("&lt;script&gt;", self.page("topics", q=evil))
        self.assertIn("no page", self.refused(NoPage, evil))

    def test_before_any_report_the_audit_says_how_to_begin(self) -> None:
        """The page has its head and its links as any other."""
        text = self.page("audit")
        self.assertIn("No client has reported", text)
        self.assertIn('href="/console/topics"', text)

    def test_without_the_tree_the_groups_are_not_known(self) -> None:
        """And the page says so, instead of showing none."""
        self.pages = ConsolePages(ConsoleSources(self.clock, lambda: self.broker, lambda: None))
        self.assertIn("coordination tree", self.refused(CoordinationUnavailable, "groups"))


class KnownGroups:
    """The lags of one group, which reads a topic of its own and one of others."""

    async def all(self) -> list[GroupRow]:
        """Return the group alone."""
        return [(await self.one("shared"))[0]]

    async def one(self, name: str) -> tuple[GroupRow, list[PartitionLag], GroupEntry]:
        """Return it with a partition of each topic."""
        topics = ("pay.orders", "web.clicks")
        lags = [PartitionLag(topic, 0, None, 5, 0, 10, 5, error="gone") for topic in topics]
        problems = tuple(GroupProblem(topic, f"{topic}-0: gone") for topic in topics)
        row = GroupRow(name, "native", 0, topics, 2, 10, None, None, None, None, problems)
        return row, lags, GroupEntry(name)


class Audited(ConsoleSources):
    """A console's sources whose audit has a window of either topic."""

    async def audit(self) -> tuple[list[Verdict], bool]:
        """Return a verdict on each."""
        return [
            Verdict(topic=topic, window=0, width=600_000, cluster="c", tier=Tier.PRODUCED, group="", expected=1, seen=1)
            for topic in ("pay.orders", "web.clicks")
        ], True


class SecuredPagesTests(PagesTestCase):
    """The console of a broker that demands rights."""

    options = {"security": SecuritySettings(security_required=True)}  # noqa: RUF012

    def test_people_see_what_they_may_describe(self) -> None:
        """Topics of others are neither listed nor shown, and strangers see nothing."""
        for name in ("web.clicks", "pay.orders"):
            self.create(name)
        rule = AccessRule("ann", Effect.ALLOW, Operation.DESCRIBE, ResourceType.TOPIC, "web.", Match.PREFIX)
        change_rule(self, add_rule, rule)
        self.settle()
        listed = self.page("topics", principal="ann")
        self.assertIn("web.clicks", listed)
        self.assertNotIn("pay.orders", listed)
        self.assertNotIn("Create a topic", listed)
        self.assertNotIn("Look at its messages", self.page("topics", "web.clicks", principal="ann"))
        self.refused(TopicAuthorizationFailed, "topics", "web.clicks")
        self.refused(ClusterAuthorizationFailed)
        self.refused(TopicAuthorizationFailed, "topics", "web.clicks", "messages")
        self.refused(ClusterAuthorizationFailed, "audit")

    def test_groups_and_the_audit_name_no_topics_of_others(self) -> None:
        """Neither in their rows, nor in what is wrong, nor in the form; the page says that there are more."""
        for operation, kind, name, match in (
            (Operation.DESCRIBE, ResourceType.TOPIC, "web.", Match.PREFIX),
            (Operation.READ, ResourceType.GROUP, "shared", Match.LITERAL),
            (Operation.DESCRIBE, ResourceType.CLUSTER, "cluster", Match.LITERAL),
        ):
            change_rule(self, add_rule, AccessRule("ann", Effect.ALLOW, operation, kind, name, match))
        self.settle()
        sources = Audited(self.clock, lambda: self.broker, lambda: self.access.client)
        groups: Any = KnownGroups()
        sources.groups = groups
        self.pages = ConsolePages(sources)
        for path in (("groups",), ("groups", "shared"), ("audit",)):
            shown = self.page(*path, principal="ann")
            self.assertIn("web.clicks", shown, path)
            self.assertNotIn("pay.orders", shown, path)
        self.assertIn("1 more partition,", self.page("groups", "shared", principal="ann"))
        self.assertIn("Move the positions", self.page("groups", "shared", principal="ann"))

    def test_who_may_create_some_topics_finds_the_form(self) -> None:
        """A permission for names that begin in one way is enough."""
        rule = AccessRule("ann", Effect.ALLOW, Operation.CREATE, ResourceType.TOPIC, "web.", Match.PREFIX)
        change_rule(self, add_rule, rule)
        self.settle()
        self.assertIn("Create a topic", self.page("topics", principal="ann"))
        self.assertNotIn("Create a topic", self.page("topics", principal="bob"))

    def test_strangers_are_asked_for_a_password_before_they_are_told_that_there_is_nothing(self) -> None:
        """A user that may see nothing is told so, and what everybody may see is shown to strangers too."""
        self.create("web.clicks")
        for page in ("topics", "groups"):
            self.assertIn("log in", self.refused(ClusterAuthorizationFailed, page))
            self.assertIn("none that you may see", self.page(page, principal="ann"))
        change_rule(self, add_rule, AccessRule("*", Effect.ALLOW, Operation.DESCRIBE, ResourceType.TOPIC, "web.clicks"))
        self.settle()
        self.assertIn("web.clicks", self.page("topics"))


class HistoryTests(BrokerTestCase):
    """The data of the charts."""

    def sample(self, history: History, now: float, value: float) -> None:
        """Take a sample whose figures all have one value."""
        history.sample(now, dict.fromkeys(SERIES, value))

    def test_counters_become_rates(self) -> None:
        """The first sample only begins; a counter that begins anew, as after a restart, is no negative rate."""
        history = History()
        self.sample(history, 100.0, 10)
        self.assertIsNone(history.latest())
        self.sample(history, 105.0, 60)
        self.sample(history, 110.0, 0)
        found = history.since(0)
        self.assertEqual(found["times"], [105.0, 110.0])
        self.assertEqual((found["bytes_in"], found["connections"]), ([10.0, 0.0], [60.0, 0.0]))
        self.assertEqual(history.since(105.0)["times"], [110.0])

    def test_old_samples_make_room(self) -> None:
        """The memory is the same after any time."""
        history = History()
        for place in range(MOST_SAMPLES + 20):
            self.sample(history, float(place), place)
        times = history.since(-1)["times"]
        self.assertEqual((len(times), times[0], times[-1]), (MOST_SAMPLES, 20.0, MOST_SAMPLES + 19.0))

    def test_rates_need_two_samples_that_are_near(self) -> None:
        """A figure that is gone, new, or old has no rate."""
        rates = Rates()
        rates.sample(0.0, {"a": 10, "b": 5})
        rates.sample(10.0, {"a": 30, "c": 5})
        self.assertEqual((rates.get("a"), rates.get("b"), rates.get("c")), (2.0, None, None))
        rates.sample(1000.0, {"a": 40})
        self.assertIsNone(rates.get("a"))


def set_zone(name: str | None) -> None:
    """Have this process in a time zone; None: that of the machine."""
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    time.tzset()


class TextsTests(BrokerTestCase):
    """Numbers, times and messages for people."""

    def test_numbers(self) -> None:
        """With units; what is not known is said to be."""
        cases: list[tuple[Any, Any, str]] = [
            (size, 0, "0 B"),
            (size, 999, "999 B"),
            (size, 1500, "1.5 KB"),
            (size, 999_999, "1.0 MB"),
            (size, 5e20, "500000 PB"),
            (size, None, "unknown"),
            (number, 1234567, "1\u202f234\u202f567"),
            (duration, 0.2, "< 1 s"),
            (duration, 80, "80 s"),
            (duration, 7200, "2.0 h"),
            (duration, 864_000, "10 days"),
            (moment, 1_320_991_200_123, "2011-11-11 06:00:00.123Z"),
            (moment, 1 << 80, f"{1 << 80} ms"),
        ]
        for function, given, expected in cases:
            self.assertEqual(function(given), expected)
        self.assertEqual(retention(-1, -1), "for ever")
        self.assertEqual(retention(3_600_000, 1000), "60 min or 1.0 KB")

    def test_messages_in_each_form(self) -> None:
        """Any bytes are shown in all of them, within a bound."""
        for data in (b"", b"text", b"\xff\xfe\0", b"[" * 5000, b'{"a": 1}', None, b"x" * 1_000_000):
            for form in (as_text, as_json, as_hex):
                self.assertLess(len(form(data)), 20_000)
        self.assertEqual(as_json(b'{"a": 1}'), '{\n  "a": 1\n}')
        self.assertEqual(as_json(rb'["\ud83d"]').encode(), b'[\n  "\\ud83d"\n]')

    def test_of_deeply_nested_json_no_more_is_made_than_is_shown(self) -> None:
        """With indents a message of some KiB would be many megabytes."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.assertIn("[\n  [\n", as_json(b"[" * 200 + b"1," * 20_000 + b"1" + b"]" * 200))
        self.assertLess(tracemalloc.get_traced_memory()[1], 2_000_000)
        self.assertEqual(as_hex(b"A\0"), f"000000  {'41 00':<47}  A.")

    def test_a_time_without_a_zone_is_in_utc(self) -> None:
        """As all times are that the pages show, wherever the broker is."""
        self.addCleanup(set_zone, os.environ.get("TZ"))
        set_zone("America/New_York")
        for same in ("2011-11-11T06:00:00", "2011-11-11 06:00Z", "2011-11-11T01:00:00-05:00"):
            self.assertEqual(parse_place(same), Time(1_320_991_200_000), same)

    def test_places(self) -> None:
        """Nothing stands for the last messages."""
        self.assertIsNone(parse_place(" "))
        self.assertEqual(parse_place("earliest"), "earliest")
        for wrong in ("-1", "soon", "99999999999-01-01", "٣"):
            self.assertRaises(InvalidRequest, parse_place, wrong)
