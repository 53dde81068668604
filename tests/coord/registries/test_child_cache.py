"""Tests of logd.coord.registries.child_cache, the copy of a node's children that watches keep."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from twisted.internet.defer import Deferred, fail
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from logd.coord.errors import OperationTimeout
from logd.coord.records import Acl, Permission, SessionState
from logd.coord.registries.child_cache import RETRY_SECONDS, ChildCache
from logd.deferreds import fair_turns
from tests.coord.registries.rig import SESSION, RegistryTestCase


def decode(name: str, data: bytes) -> str:
    """Decode ASCII; any other data are a ValueError."""
    return data.decode("ascii")


class ChildCacheTests(RegistryTestCase):
    """A cache of the children of /m."""

    def setUp(self) -> None:
        """Start the cache."""
        super().setUp()
        self.told: list[str] = []
        self.watcher = self.client()
        self.cache = ChildCache(self.watcher, self.clock, "/m", decode, self.told.append)
        self.complete = self.cache.when_complete()
        self.cache.start()
        self.settle()

    def put(self, name: str, value: bytes) -> None:
        """Make a child with this value."""
        self.outcome(self.tree.create(f"/m/{name}", value, makepath=True))

    def test_a_missing_parent_is_made(self) -> None:
        """The cache is complete and empty."""
        self.successResultOf(self.complete)
        self.assertEqual((self.cache.values, self.told), ({}, []))
        self.assertIsNotNone(self.outcome(self.tree.exists("/m")))

    def test_children_that_come_and_go_are_followed(self) -> None:
        """Changed values are followed too, and each is told once."""
        self.put("a", b"1")
        self.assertEqual((self.cache.values, self.told), ({"a": "1"}, ["a"]))
        self.outcome(self.tree.set("/m/a", b"2"))
        self.put("b", b"3")
        self.assertEqual((self.cache.values, self.told), ({"a": "2", "b": "3"}, ["a", "a", "b"]))
        self.outcome(self.tree.delete("/m/a"))
        self.assertEqual((self.cache.values, self.told[3:]), ({"b": "3"}, ["a"]))
        self.put("a", b"4")
        self.assertEqual((self.cache.values, self.told[4:]), ({"a": "4", "b": "3"}, ["a"]))

    def test_a_vanished_child_leaves_the_cache_complete(self) -> None:
        """Its first read had failed, so it was still waited for."""
        watcher = self.client()
        self.put("a", b"1")
        self.put("b", b"2")
        read = watcher.get_and_watch

        def failing(path: str, timeout: float | None = None) -> tuple[Any, Any]:
            if path.endswith("/b"):
                return fail(OperationTimeout(path=path)), Deferred()
            return read(path, timeout)

        watcher.get_and_watch = failing  # type: ignore[method-assign]  # as when the server does not answer that one
        cache = ChildCache(watcher, self.clock, "/m", decode)
        complete = cache.when_complete()
        cache.start()
        self.settle()
        self.assertNoResult(complete)
        self.outcome(self.tree.delete("/m/b"))
        self.pass_time(RETRY_SECONDS)
        self.successResultOf(complete)
        self.assertEqual(cache.values, {"a": "1"})

    def test_a_child_that_may_not_be_read_counts_as_missing(self) -> None:
        """It is logged once by each cache, although the read is tried again."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.put("a", b"1")
        secret = (Acl(Permission.READ, "digest", "someone:x"),)
        self.outcome(self.tree.create("/m/b", b"2", acl=secret))
        cache = ChildCache(self.client(), self.clock, "/m", decode)
        cache.start()
        self.pass_time(5 * RETRY_SECONDS)
        self.assertTrue(cache.complete)
        self.assertEqual(cache.values, {"a": "1"})
        said = [event for event in map(formatEvent, events) if "/m/b cannot be read" in event]
        self.assertEqual(len(said), 2)  # by each of the two caches

    def test_a_child_replaced_at_once_is_followed_on(self) -> None:
        """The cache has the value of the latest one."""
        self.put("a", b"1")
        for value in (b"2", b"3"):
            self.tree.delete("/m/a")
            self.tree.create("/m/a", value)
        self.settle()
        self.assertEqual(self.cache.values, {"a": "3"})
        self.outcome(self.tree.set("/m/a", b"4"))
        self.assertEqual(self.cache.values, {"a": "4"})

    def test_values_stay_while_the_tree_is_away(self) -> None:
        """Changes made meanwhile are seen and told afterwards."""
        self.put("a", b"1")
        self.put("b", b"1")
        self.watcher.link.reachable = False
        self.watcher.link.cut()
        self.pass_time(1)
        self.outcome(self.tree.delete("/m/a"))
        self.outcome(self.tree.set("/m/b", b"2"))
        self.put("c", b"3")
        self.assertEqual(self.cache.values, {"a": "1", "b": "1"})
        self.watcher.link.reachable = True
        self.pass_time(1)
        self.assertEqual(self.cache.values, {"b": "2", "c": "3"})
        self.assertEqual(sorted(self.told[2:]), ["a", "b", "c"])
        self.outcome(self.tree.set("/m/b", b"4"))
        self.assertEqual(self.cache.values["b"], "4")

    def test_a_cache_is_followed_on_in_the_next_session(self) -> None:
        """The watches of the old one are gone."""
        self.put("a", b"1")
        self.watcher.link.reachable = False
        self.watcher.link.cut()
        self.pass_time(SESSION + 2)
        self.outcome(self.tree.set("/m/a", b"2"))
        self.watcher.link.reachable = True
        self.pass_time(2)
        self.assertEqual(self.cache.values, {"a": "2"})
        self.outcome(self.tree.set("/m/a", b"3"))
        self.assertEqual(self.cache.values, {"a": "3"})

    def test_thirty_cuts_leave_the_cache_right(self) -> None:
        """The connection is cut each time while the cache reads."""
        for number in range(30):
            self.put(f"n{number}", b"%d" % number)
            self.watcher.link.cut()
            self.pass_time(0.2)
        self.pass_time(1)
        self.assertEqual(self.cache.values, {f"n{number}": str(number) for number in range(30)})

    def test_a_value_that_cannot_be_decoded_is_left_out(self) -> None:
        """It is logged, and is there once it is mended."""
        events: list[LogEvent] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            events.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.put("a", b"\xff")
        self.assertEqual((self.cache.values, self.cache.complete), ({}, True))
        self.assertTrue(any("/m/a cannot be read" in formatEvent(event) for event in events))
        self.outcome(self.tree.set("/m/a", b"1"))
        self.assertEqual(self.cache.values, {"a": "1"})

    def test_a_listener_that_raises_does_not_end_the_cache(self) -> None:
        """Its error is logged, and the cache goes on following the children."""

        def fail(name: str) -> None:
            raise RuntimeError(name)

        other = ChildCache(self.watcher, self.clock, "/m", decode, fail)
        other.start()
        self.put("a", b"1")
        self.put("b", b"1")
        self.assertEqual(other.values, {"a": "1", "b": "1"})
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    def test_a_stopped_cache_tells_nothing_more(self) -> None:
        """Its values stay as they were."""
        self.put("a", b"1")
        self.cache.stop()
        self.put("b", b"1")
        self.assertEqual((self.cache.values, self.told), ({"a": "1"}, ["a"]))

    def test_many_children_are_read_in_turns(self) -> None:
        """Others are served before the last of them is asked for."""
        for number in range(20):
            self.tree.create(f"/m/n{number}", b"1")
        self.settle()
        watcher = self.client()
        done: list[str] = []
        read = watcher.get_and_watch

        def reading(path: str, timeout: float | None = None) -> Any:
            done.append("read")
            return read(path, timeout)

        def turn() -> None:
            done.append("turn")
            if done.count("read") < 20 and len(done) < 1000:
                self.clock.callLater(0, turn)

        watcher.get_and_watch = reading  # type: ignore[method-assign]  # it notes when each child is asked for
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        cache = ChildCache(watcher, self.clock, "/m", decode)
        cache.start()
        turn()
        self.settle()
        self.assertEqual(len(cache.values), 20)
        self.assertNotIn(("read", "read"), pairwise(done))

    def test_a_lost_connection_cancels_nothing(self) -> None:
        """The tasks end by their watches, or by what they read: to cancel each of many would hold others up."""
        for number in range(5):
            self.put(f"n{number}", b"1")
        cancelled: list[object] = []
        self.patch(Deferred, "cancel", lambda deferred: cancelled.append(deferred))
        self.watcher.link.reachable = False
        self.watcher.link.cut()
        self.clock.advance(0.2)
        self.assertIsNot(self.watcher.state, SessionState.CONNECTED)
        self.assertEqual(cancelled, [])
