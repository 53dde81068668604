"""Tests of logd.coord.zookeeper.kazoo_client: the steps of kazoo's thread between ours."""

from __future__ import annotations

import threading
from typing import Any, cast

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import Callback, EventType, KazooState, KeeperState, WatchedEvent
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.client_watches import WatchKind
from logd.coord.errors import CoordinationError, NoNode
from logd.coord.records import Create, Exists, SessionState
from logd.coord.zookeeper.kazoo_client import KazooSession
from logd.coord.zookeeper.reactor_queue import ThreadReactor
from logd.coord.zookeeper.session_events import SessionCallbacks, SessionChange
from logd.coord.zookeeper.settings import CoordinationSettings
from tests.coord.zookeeper.doubles import Turns


class KazooSessionTests(SynchronousTestCase):
    """A session that is never started: the test takes the steps of kazoo's thread."""

    def setUp(self) -> None:
        """Make a session without a thread, connected for the first time."""
        self.turns = Turns()
        self.order: list[object] = []
        events = SessionCallbacks(self.told, self.fired, lambda error: self.order.append(error))
        before = threading.active_count()
        self.session = KazooSession(cast(ThreadReactor, self.turns), CoordinationSettings(), events)
        self.assertEqual(threading.active_count(), before)
        self.kazoo: Any = self.session._client
        self.kazoo._call = self.take
        self.taken: list[tuple[Any, Any]] = []
        self.answer_at_once = False
        self.change(KazooState.CONNECTED)

    def told(self, told: SessionChange) -> None:
        """Record a change of state."""
        self.order.append((told.state, told.connection))

    def fired(self, kind: WatchKind, path: str, event: object) -> None:
        """Record an event."""
        self.order.append(("event", path))

    def done(self, value: object, error: CoordinationError | None) -> None:
        """Record an answer."""
        self.order.append(error or ("answer", value))

    def take(self, request: Any, result: Any) -> None:
        """Take a request as kazoo does; its thread may be so quick that the answer is there at once."""
        self.taken.append((request, result))
        if self.answer_at_once:
            result.set(None)
            event = WatchedEvent(EventType.CREATED, KeeperState.CONNECTED, request.path)
            self.kazoo.handler.dispatch_callback(Callback("watch", request.watcher, (event,)))

    def change(self, state: str) -> None:
        """Report a state as kazoo's thread does."""
        if state == KazooState.CONNECTED:
            self.kazoo._live.set()
            self.kazoo._session_id = 7
        self.session._changed(state)

    def test_an_early_answer_and_its_event_keep_their_order(self) -> None:
        """They never run inside send, however soon they come."""
        self.answer_at_once = True
        self.turns.turn()
        self.order.clear()
        self.assertTrue(self.session.send(Exists("/a", watch=True), 1, self.done))
        self.assertEqual(self.order, [])
        self.turns.turn()
        self.assertEqual(self.order, [("answer", None), ("event", "/a")])

    def test_a_request_is_sent_on_its_own_connection_only(self) -> None:
        """It is never sent on another, or on none, even if the change was not yet told."""
        self.assertTrue(self.session.send(Exists("/1"), 1, self.done))
        self.change(KazooState.SUSPENDED)
        self.assertFalse(self.session.send(Exists("/none"), 1, self.done))
        self.change(KazooState.CONNECTED)
        self.assertFalse(self.session.send(Exists("/old"), 1, self.done))
        self.assertTrue(self.session.send(Exists("/2"), 2, self.done))
        self.assertEqual([request.path for request, _ in self.taken], ["/1", "/2"])
        self.turns.turn()
        states = [(SessionState.CONNECTED, 1), (SessionState.SUSPENDED, 0), (SessionState.CONNECTED, 2)]
        self.assertEqual(self.order, states)

    def test_a_create_is_answered_before_later_calls(self) -> None:
        """It is two results for kazoo, of which the second comes a step later."""
        self.session.send(Create("/made"), 1, self.done)
        self.session.send(Exists("/later"), 1, self.done)
        self.turns.turn()
        self.order.clear()
        (_, first), (_, second) = self.taken
        first.set("/made")
        second.set_exception(NoNodeError())
        self.turns.turn()
        self.assertEqual(self.order[0], ("answer", "/made"))
        self.assertIsInstance(self.order[1], NoNode)

    def test_a_session_is_over_only_when_a_server_says_so(self) -> None:
        """kazoo also reports a lost session when its client is closed."""
        self.turns.turn()
        self.order.clear()
        self.kazoo._state = KeeperState.CLOSED
        self.change(KazooState.LOST)
        self.turns.turn()
        self.assertEqual(self.order, [])
        self.kazoo._state = KeeperState.EXPIRED_SESSION
        self.change(KazooState.LOST)
        self.turns.turn()
        self.assertEqual(self.order, [(SessionState.LOST, 0)])
