"""kazoo's client in our hands: what its thread may do between our steps."""

from __future__ import annotations

import threading
from typing import Any, cast

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import Callback, EventType, KazooState, KeeperState, WatchedEvent
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import CoordinationError, NoNode
from logd.coord.records import Create, Exists, SessionState
from logd.coord.watches import WatchKind
from logd.coord.zookeeper.kazoo_client import KazooSession
from logd.coord.zookeeper.reactor_queue import ThreadReactor
from logd.coord.zookeeper.session_events import SessionCallbacks, SessionChange
from logd.coord.zookeeper.settings import CoordinationSettings
from tests.coord.zookeeper.doubles import Turns


class KazooSessionTests(SynchronousTestCase):
    """A session that is never started: what kazoo's thread does is done here by hand."""

    def setUp(self) -> None:
        """Make it, connected for the first time."""
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
        """Note a state."""
        self.order.append((told.state, told.connection))

    def fired(self, kind: WatchKind, path: str, event: object) -> None:
        """Note an event."""
        self.order.append(("event", path))

    def done(self, value: object, error: CoordinationError | None) -> None:
        """Note an answer."""
        self.order.append(error or ("answer", value))

    def take(self, request: Any, result: Any) -> None:
        """What kazoo does with a request; its thread may be so quick that the answer is there at once."""
        self.taken.append((request, result))
        if self.answer_at_once:
            result.set(None)
            event = WatchedEvent(EventType.CREATED, KeeperState.CONNECTED, request.path)
            self.kazoo.handler.dispatch_callback(Callback("watch", request.watcher, (event,)))

    def change(self, state: str) -> None:
        """What kazoo's thread tells."""
        if state == KazooState.CONNECTED:
            self.kazoo._live.set()
            self.kazoo._session_id = 7
        self.session._changed(state)

    def test_answer_before_the_call_has_returned(self) -> None:
        """An answer and the event behind it keep their order, however soon they come, and never run inside send."""
        self.answer_at_once = True
        self.turns.turn()
        self.order.clear()
        self.assertTrue(self.session.send(Exists("/a", watch=True), 1, self.done))
        self.assertEqual(self.order, [])
        self.turns.turn()
        self.assertEqual(self.order, [("answer", None), ("event", "/a")])

    def test_gate(self) -> None:
        """Nothing that is meant for one connection is sent on another, or on none, whatever was told by then."""
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

    def test_chained_answers_keep_their_order(self) -> None:
        """A create, which is two results for kazoo, is answered before what was answered behind it."""
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

    def test_expired(self) -> None:
        """That a session is over is told only when a server said so."""
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
