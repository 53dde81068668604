"""Tests of what the console shows of partitions that other brokers store."""

from __future__ import annotations

from typing import Any, Self

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.coord.partition_state import PartitionState
from logd.coord.registries.operator_requests import Reassignment, change_reassignment, set_draining
from logd.coord.registries.partition_states import KnownState
from logd.errors import BrokerUnavailable
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.topic import TopicEntry
from logd.web.console.elsewhere_sizes import FORGOTTEN_SECONDS, KEPT_SECONDS, MOST_PLACES, ElsewhereSizes
from logd.web.console.pages import ConsolePages
from logd.web.console.requested_operations import FRESH_SECONDS
from logd.web.console.sources import ConsoleSources
from tests.log.entries import plain
from tests.web.console.test_console_pages import COMMON, PagesTestCase


@define
class FakeAdmin:
    """Leaders that answer when the test lets them."""

    asked: list[tuple[str, int]] = field(factory=list)
    waiting: list[Deferred[DescribeLogResponse]] = field(factory=list)
    held: bool = False
    size: int = 1000

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def describe_log(self, topic: str, partition: int) -> Deferred[DescribeLogResponse]:
        """Answer at once, or later."""
        self.asked.append((topic, partition))
        answer: Deferred[DescribeLogResponse] = Deferred()
        self.waiting.append(answer)
        if not self.held:
            self.answer()
        return answer

    def answer(self) -> None:
        """Answer all that wait."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.callback(DescribeLogResponse(0, 500, 500 + self.size, 500 + self.size))


class ElsewhereTests(PagesTestCase):
    """A broker 7 that is registered beside this one."""

    def setUp(self) -> None:
        """Have two topics: one elsewhere, one here and elsewhere."""
        super().setUp()
        self.admin = FakeAdmin()
        admin: Any = self.admin
        self.sizes = self.sources.topics.elsewhere = ElsewhereSizes(self.clock, lambda: admin)
        self.broker.addresses.native = lambda: {7: ("seven.example", 6667)}
        self.create("both", 1)
        self.broker.topics.show("away", TopicEntry("u" * 8, {0: (7,), 1: (7,)}))

    def test_sizes_are_summed_over_brokers(self) -> None:
        """Here and there, asked for only as long as somebody looks, and not again for a while."""
        self.produce(self.connect(), "both", plain(b"hello"))
        here = self.sources.topics.one("both").bytes
        assert here is not None
        self.broker.topics.show("both", TopicEntry("u" * 8, {0: (0,), 1: (7,)}))
        self.assertEqual(self.admin.asked, [])
        text = self.page("topics")
        self.assertIn("2.0 KB", text)
        self.assertEqual(sorted(self.admin.asked), [("away", 0), ("away", 1), ("both", 1)])
        row = self.sources.topics.one("both")
        self.assertEqual((row.bytes, row.unknown), (here + 1000, 0))
        self.page("topics")
        self.assertEqual(len(self.admin.asked), 3)
        self.admin.size = 5000
        self.clock.advance(KEPT_SECONDS + 1)
        self.assertIn("10.0 KB", self.page("topics", sort="size"))

    def test_a_page_does_not_wait_for_slow_brokers(self) -> None:
        """It says what it does not know, and has it later."""
        self.admin.held = True
        making = Deferred.fromCoroutine(self.pages.page(self.asked("topics")))
        self.clock.advance(0.06)
        page = self.successResultOf(making)
        (away, _), *_ = page.values["rows"]
        self.assertEqual((away.name, away.bytes, away.unknown), ("away", None, 2))
        self.admin.held = False
        self.admin.answer()
        self.settle()
        self.assertEqual(self.sources.topics.one("away").bytes, 2000)

    def test_a_leader_that_does_not_answer_leaves_a_lower_bound(self) -> None:
        """The sum of what the others told is shown as such."""
        self.admin.held = True
        looking = Deferred.fromCoroutine(self.sizes.look([("away", 0), ("away", 1)]))
        self.admin.waiting.pop().errback(BrokerUnavailable("gone"))
        self.admin.answer()
        self.settle()
        self.successResultOf(looking)
        self.assertEqual(self.sizes.known("away", [0, 1]), (1000, 1))
        self.admin.held = False
        self.assertIn("at least 1.0 KB", self.page("topics"))

    def test_readings_are_bounded_and_forgotten(self) -> None:
        """Whatever is looked at."""
        self.successResultOf(Deferred.fromCoroutine(self.sizes.look([("many", n) for n in range(10_000)])))
        self.assertEqual(len(self.admin.asked), MOST_PLACES)
        self.clock.advance(FORGOTTEN_SECONDS + 1)
        self.successResultOf(Deferred.fromCoroutine(self.sizes.look([("other", 0)])))
        self.assertEqual(self.sizes.known("many", [0]), (0, 1))

    def test_a_stop_gives_up_what_is_asked(self) -> None:
        """And whoever waits for it goes on."""
        self.admin.held = True
        looking = Deferred.fromCoroutine(self.sizes.look([("away", 0)]))
        self.sources.stop()
        self.successResultOf(looking)


class ReplicaTests(PagesTestCase):
    """Topics with replicas, of other brokers, and what people have asked for."""

    def shown(self, *path: str) -> str:
        """Return a page as it is at once, without the tree: replication begins to work as soon as the clock turns."""
        nothing: Any = None
        pages = ConsolePages(ConsoleSources(self.clock, lambda: self.broker, lambda: nothing))
        page = self.successResultOf(Deferred.fromCoroutine(pages.page(self.asked(*path))))
        return self.templates.page(page, COMMON)

    def test_replicas_and_those_not_in_sync_are_shown(self) -> None:
        """In the list, on the topic's page, and in the whole cluster."""
        self.broker.topics.show("t", TopicEntry("u" * 8, {0: (0, 7), 1: (7, 0)}, replicated=True))
        states = self.broker.replication.states
        for number, in_sync in enumerate(((0, 7), (0,))):
            states.took("t", number, KnownState(PartitionState(0, 1, in_sync), 5, "u" * 8))
        row = self.sources.topics.one("t")
        self.assertEqual((row.replicas, row.under_replicated), (2, 1))
        away = "broker 7 is not registered; it has replicas"
        for path, text in ((("topics",), "1 under-replicated"), ((), "Under-replicated"), ((), away)):
            self.assertIn(text, self.shown(*path))
        self.broker.topics.hide("t")
        self.settle()

    def test_partitions_that_nobody_leads_are_shown(self) -> None:
        """With one replica, whose broker is away, and with several of which none may lead."""
        self.broker.topics.show("one", TopicEntry("u" * 8, {0: (0,), 1: (7,)}))
        self.broker.topics.show("two", TopicEntry("v" * 8, {0: (7, 8), 1: (7, 0)}, replicated=True))
        states = self.broker.replication.states
        states.took("two", 0, KnownState(PartitionState(-1, 1, (7,)), 5, "v" * 8))
        states.took("two", 1, KnownState(PartitionState(0, 1, (0,)), 5, "v" * 8))
        self.assertEqual([self.sources.topics.one(name).leaderless for name in ("one", "two")], [1, 1])
        self.assertIn("1 without a leader", self.shown("topics"))
        self.assertIn('Without a leader</p><p class="value">2<', self.shown())
        for name in ("one", "two"):
            self.broker.topics.hide(name)
        self.settle()

    def test_what_is_moved_and_drained_is_shown(self) -> None:
        """The target of each partition, as long as the topic is the one that was to be moved; and the brokers."""
        self.create("t", 2)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertNotIn("moved", self.page())
        tree = self.access.client
        for topic, uuid in (("t", entry.uuid), ("deleted", "x")):
            self.do(change_reassignment(tree, topic, lambda _: Reassignment(uuid, {1: (7, 8)})))  # noqa: B023
        self.do(set_draining(tree, 7, True))
        self.assertNotIn("moved", self.page(), "as of a moment ago")
        self.clock.advance(FRESH_SECONDS)
        text = self.page()
        self.assertIn('Moving to other brokers</p><p class="value">2<', text)
        self.assertIn("drained", text)
        self.assertIn('<a href="/console/topics/t">t</a>', text)
        self.assertEqual(self.page("topics", "t").count("moves to 7, 8"), 1)

    def test_a_tree_that_is_away_leaves_that_unknown(self) -> None:
        """And the page says so."""
        self.assertIn("is not known: the coordination tree", self.shown())

    def do(self, work: Any) -> None:
        """Change the tree."""
        doing = Deferred.fromCoroutine(work)
        self.settle()
        self.successResultOf(doing)
