"""Tests of logd.coord.tree.watches, and of watches that are left again."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import SystemFailure
from logd.coord.records import Create, Delete, EventType, GetChildren, GetData, SetData, SetWatches, WatchEvent
from logd.coord.tree.outcome import Notification
from logd.coord.tree.tree import Tree
from logd.coord.tree.watches import Watches


class WatchesTests(SynchronousTestCase):
    """The watches that a change fires, and their order."""

    def setUp(self) -> None:
        """Begin without a watch."""
        self.watches = Watches()

    def test_a_session_is_told_once_of_a_nodes_end(self) -> None:
        """It watches data and children, and would be told twice."""
        self.watches.data.add("/a", 1)
        self.watches.children.add("/a", 1)
        self.watches.children.add("/a", 2)
        gone = WatchEvent(EventType.DELETED, "/a")
        self.assertEqual(list(self.watches.removed("/a")), [Notification(1, gone), Notification(2, gone)])
        self.assertEqual(len(self.watches.data) + len(self.watches.children), 0)

    def test_the_nodes_event_comes_before_the_parents(self) -> None:
        """The order is the same for a node that is made and for one that is removed."""
        for happened, type_ in ((self.watches.removed, EventType.DELETED), (self.watches.made, EventType.CREATED)):
            self.watches.children.add("/", 1)
            self.watches.data.add("/a", 1)
            told = [event.type for _, event, _ in happened("/a")]
            self.assertEqual(told, [type_, EventType.CHILDREN])

    def test_sessions_are_told_in_the_order_of_their_watches(self) -> None:
        """A session that leaves a second watch keeps its place."""
        for session in (5, 3, 9, 3):
            self.watches.data.add("/a", session)
        self.assertEqual([session for session, _, _ in self.watches.changed("/a")], [5, 3, 9])

    def test_a_sessions_watches_are_forgotten(self) -> None:
        """Those of others stay, and forgetting twice is harmless."""
        for session in (1, 2):
            self.watches.data.add("/a", session)
            self.watches.children.add("/b", session)
        self.watches.forget(1)
        self.watches.forget(1)
        self.assertEqual((len(self.watches.data), self.watches.data.paths()), (1, 1))
        self.watches.forget(2)
        self.assertEqual((self.watches.data.paths(), self.watches.children.paths()), (0, 0))


class SetWatchesTests(SynchronousTestCase):
    """Watches that a client had before its connection was lost."""

    def setUp(self) -> None:
        """Make a tree in which each path has been through something else since ``self.seen``."""
        self.tree = Tree()
        self.session = self.tree.open_session(1_000, b"", 0).zxid
        for path in ("/changed", "/listed", "/same", "/gone"):
            self.ask(Create(path))
        self.seen = self.tree.zxid
        for request in (SetData("/changed", b""), Create("/listed/a"), Create("/new"), Delete("/gone")):
            self.ask(request)

    def ask(self, request: Any) -> list[tuple[EventType, str]]:
        """Return the events that fire."""
        outcome = self.tree.execute(self.session, (), request, 0)
        self.assertNotIsInstance(outcome.answer, Exception)
        return [(event.type, event.path) for _, event, _ in outcome.notifications]

    def test_a_missed_change_fires_at_once(self) -> None:
        """The other paths are watched again."""
        paths = ("/changed", "/listed", "/same", "/gone")
        self.assertEqual(
            self.ask(SetWatches(self.seen, data=paths)), [(EventType.CHANGED, "/changed"), (EventType.DELETED, "/gone")]
        )
        self.assertEqual(
            self.ask(SetWatches(self.seen, children=paths)),
            [(EventType.CHILDREN, "/listed"), (EventType.DELETED, "/gone")],
        )
        self.assertEqual(self.ask(SetWatches(self.seen, exists=("/new", "/no"))), [(EventType.CREATED, "/new")])
        self.assertEqual((len(self.tree.watches.data), len(self.tree.watches.children)), (3, 2))
        self.assertEqual(self.ask(SetData("/same", b"")), [(EventType.CHANGED, "/same")])
        self.assertEqual(self.ask(Create("/same/a")), [(EventType.CHILDREN, "/same")])
        self.assertEqual(self.ask(Create("/no")), [(EventType.CREATED, "/no")])

    def test_no_watch_is_left_unless_all_have_room(self) -> None:
        """No event of the others is then lost with the failure."""
        self.tree.watches.limit_bytes = 1_000
        paths = ("/changed", "/same", "/listed", "/gone")
        outcome = self.tree.execute(self.session, (), SetWatches(self.seen, data=paths), 0)
        self.assertIsInstance(outcome.answer, SystemFailure)
        self.assertEqual((outcome.notifications, len(self.tree.watches.data)), ((), 0))
        self.assertEqual(self.ask(SetWatches(self.seen, data=paths[:2])), [(EventType.CHANGED, "/changed")])

    def test_a_read_without_a_watch_leaves_none(self) -> None:
        """Otherwise every client would be told of everything that it ever read."""
        self.ask(GetData("/same"))
        self.ask(GetChildren("/same"))
        self.assertEqual(len(self.tree.watches.data) + len(self.tree.watches.children), 0)
