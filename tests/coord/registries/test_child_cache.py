"""Tests of the copy of a node's children that watches keep."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred, fail
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from logd.coord.errors import OperationTimeout
from logd.coord.records import Acl, Permission
from logd.coord.registries.child_cache import RETRY_SECONDS, ChildCache
from tests.coord.registries.trees import SESSION, TreeTestCase


def decode(name: str, data: bytes) -> str:
    """Text; nothing else."""
    return data.decode("ascii")


class MirrorTests(TreeTestCase):
    """A mirror of /m."""

    def setUp(self) -> None:
        """Start it."""
        super().setUp()
        self.told: list[str] = []
        self.watcher = self.client()
        self.mirror = ChildCache(self.watcher, self.clock, "/m", decode, self.told.append)
        self.complete = self.mirror.when_complete()
        self.mirror.start()
        self.settle()

    def put(self, name: str, value: bytes) -> None:
        """Have a child with this value."""
        self.outcome(self.tree.create(f"/m/{name}", value, makepath=True))

    def test_missing(self) -> None:
        """A node that is not there is made, and is empty."""
        self.successResultOf(self.complete)
        self.assertEqual((self.mirror.values, self.told), ({}, []))
        self.assertIsNotNone(self.outcome(self.tree.exists("/m")))

    def test_follows(self) -> None:
        """Children that come, change, go and come again are seen, each told once."""
        self.put("a", b"1")
        self.assertEqual((self.mirror.values, self.told), ({"a": "1"}, ["a"]))
        self.outcome(self.tree.set("/m/a", b"2"))
        self.put("b", b"3")
        self.assertEqual((self.mirror.values, self.told), ({"a": "2", "b": "3"}, ["a", "a", "b"]))
        self.outcome(self.tree.delete("/m/a"))
        self.assertEqual((self.mirror.values, self.told[3:]), ({"b": "3"}, ["a"]))
        self.put("a", b"4")
        self.assertEqual((self.mirror.values, self.told[4:]), ({"a": "4", "b": "3"}, ["a"]))

    def test_gone_after_a_failed_read(self) -> None:
        """A child whose first read fails and that is gone then does not keep the mirror incomplete."""
        watcher = self.client()
        self.put("a", b"1")
        self.put("b", b"2")
        read = watcher.get_and_watch

        def failing(path: str, timeout: float | None = None) -> tuple[Any, Any]:
            if path.endswith("/b"):
                return fail(OperationTimeout(path=path)), Deferred()
            return read(path, timeout)

        watcher.get_and_watch = failing  # type: ignore[method-assign]  # as when the server does not answer that one
        mirror = ChildCache(watcher, self.clock, "/m", decode)
        complete = mirror.when_complete()
        mirror.start()
        self.settle()
        self.assertNoResult(complete)
        self.outcome(self.tree.delete("/m/b"))
        self.pass_time(RETRY_SECONDS)
        self.successResultOf(complete)
        self.assertEqual(mirror.values, {"a": "1"})

    def test_not_allowed(self) -> None:
        """A child that may not be read is one child that is not there, said once."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.put("a", b"1")
        secret = (Acl(Permission.READ, "digest", "someone:x"),)
        self.outcome(self.tree.create("/m/b", b"2", acl=secret))
        mirror = ChildCache(self.client(), self.clock, "/m", decode)
        mirror.start()
        self.pass_time(5 * RETRY_SECONDS)
        self.assertTrue(mirror.complete)
        self.assertEqual(mirror.values, {"a": "1"})
        said = [event for event in map(formatEvent, events) if "/m/b cannot be read" in event]
        self.assertEqual(len(said), 2)  # by each of the two mirrors

    def test_gone_and_back_at_once(self) -> None:
        """A child that is replaced faster than it is looked at is seen as it is then, and followed on."""
        self.put("a", b"1")
        for value in (b"2", b"3"):
            self.tree.delete("/m/a")
            self.tree.create("/m/a", value)
        self.settle()
        self.assertEqual(self.mirror.values, {"a": "3"})
        self.outcome(self.tree.set("/m/a", b"4"))
        self.assertEqual(self.mirror.values, {"a": "4"})

    def test_connection_lost(self) -> None:
        """Values stay while the tree is away; then what happened meanwhile is seen, and told."""
        self.put("a", b"1")
        self.put("b", b"1")
        self.watcher.link.reachable = False
        self.watcher.link.cut()
        self.pass_time(1)
        self.outcome(self.tree.delete("/m/a"))
        self.outcome(self.tree.set("/m/b", b"2"))
        self.put("c", b"3")
        self.assertEqual(self.mirror.values, {"a": "1", "b": "1"})
        self.watcher.link.reachable = True
        self.pass_time(1)
        self.assertEqual(self.mirror.values, {"b": "2", "c": "3"})
        self.assertEqual(sorted(self.told[2:]), ["a", "b", "c"])
        self.outcome(self.tree.set("/m/b", b"4"))
        self.assertEqual(self.mirror.values["b"], "4")

    def test_session_lost(self) -> None:
        """The same after a session that is over."""
        self.put("a", b"1")
        self.watcher.link.reachable = False
        self.watcher.link.cut()
        self.pass_time(SESSION + 2)
        self.outcome(self.tree.set("/m/a", b"2"))
        self.watcher.link.reachable = True
        self.pass_time(2)
        self.assertEqual(self.mirror.values, {"a": "2"})
        self.outcome(self.tree.set("/m/a", b"3"))
        self.assertEqual(self.mirror.values, {"a": "3"})

    def test_many_interruptions(self) -> None:
        """However often the connection is cut while it reads, it ends with what is there."""
        for number in range(30):
            self.put(f"n{number}", b"%d" % number)
            self.watcher.link.cut()
            self.pass_time(0.2)
        self.pass_time(1)
        self.assertEqual(self.mirror.values, {f"n{number}": str(number) for number in range(30)})

    def test_nonsense(self) -> None:
        """A value that cannot be read is reported and left out; when it is mended it is there."""
        events: list[LogEvent] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            events.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.put("a", b"\xff")
        self.assertEqual((self.mirror.values, self.mirror.complete), ({}, True))
        self.assertTrue(any("/m/a cannot be read" in formatEvent(event) for event in events))
        self.outcome(self.tree.set("/m/a", b"1"))
        self.assertEqual(self.mirror.values, {"a": "1"})

    def test_listener_fails(self) -> None:
        """A listener that raises is reported, and does not end the mirror."""

        def fail(name: str) -> None:
            raise RuntimeError(name)

        other = ChildCache(self.watcher, self.clock, "/m", decode, fail)
        other.start()
        self.put("a", b"1")
        self.put("b", b"1")
        self.assertEqual(other.values, {"a": "1", "b": "1"})
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    def test_stop(self) -> None:
        """After stop nothing is told."""
        self.put("a", b"1")
        self.mirror.stop()
        self.put("b", b"1")
        self.assertEqual((self.mirror.values, self.told), ({"a": "1"}, ["a"]))
