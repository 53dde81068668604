"""Tests of logd.coord.zookeeper.kept_session, over sessions of kazoo's that the test plays."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import AuthFailed, ClientClosing, CoordinationError
from logd.coord.records import Create, Request, SessionState
from logd.coord.zookeeper.kazoo_client import Identity
from logd.coord.zookeeper.kept_session import KeptSession
from logd.coord.zookeeper.reactor_queue import ThreadReactor
from logd.coord.zookeeper.session_events import SessionCallbacks, SessionChange
from logd.coord.zookeeper.settings import FOR_EVER, CoordinationSettings
from tests.coord.zookeeper.doubles import Turns

Done = Callable[[object, CoordinationError | None], None]


@define(eq=False)
class PlayedSession:
    """A stand-in for KazooSession."""

    events: SessionCallbacks
    identity: Identity | None
    #: Requests that were sent, each with the function that takes its answer.
    sent: list[tuple[Request, Done]] = field(factory=list)
    started: bool = False
    ended: bool = False
    may_end: bool = True

    def start(self) -> None:
        """Begin."""
        self.started = True

    def send(self, request: Request, connection: int, done: Done) -> bool:
        """Take a request."""
        self.sent.append((request, done))
        return True

    def cut(self) -> None:
        """Do nothing: there is no connection."""

    def end(self, patience: float, done: Callable[[], None]) -> None:
        """End at once."""
        if not self.may_end:
            raise RuntimeError("can't start new thread")
        self.ended = True
        done()

    def tell(self, state: SessionState, session_id: int = 0) -> None:
        """Report a state as kazoo's thread does."""
        self.events.state(SessionChange(state, 1, session_id, b"password", 10.0))


class KeptSessionTests(SynchronousTestCase):
    """A session under a chroot."""

    def setUp(self) -> None:
        """Begin to open the session."""
        self.turns = Turns()
        self.played: list[PlayedSession] = []
        #: The errors of the next attempts to make one, the first one last.
        self.failing: list[Exception] = []
        settings = CoordinationSettings(hosts="zoo/logd")
        self.kept = KeptSession(cast(ThreadReactor, self.turns), settings, self.make)
        self.states: list[SessionState] = []
        self.kept.subscribe(self.states.append)
        self.opened: Deferred[None] = self.kept.open(FOR_EVER)

    def make(self, _reactor: object, _settings: object, events: SessionCallbacks, identity: Identity | None) -> Any:
        """Make a stand-in for one more of kazoo's sessions."""
        if self.failing:
            raise self.failing.pop()
        self.played.append(PlayedSession(events, identity))
        return self.played[-1]

    def close_when_over(self, state: SessionState) -> None:
        """Close the session as soon as it is lost."""
        if state is SessionState.LOST:
            self.kept.close()

    def test_the_chroot_is_made_again_in_the_next_session(self) -> None:
        """The first one ended meanwhile; a caller that waits for ever does wait on."""
        kazoo = self.played[0]
        kazoo.tell(SessionState.CONNECTED, 1)
        self.assertIsInstance(kazoo.sent[0][0], Create)
        kazoo.tell(SessionState.SUSPENDED)
        kazoo.tell(SessionState.LOST)
        self.assertNoResult(self.opened)
        kazoo.tell(SessionState.CONNECTED, 2)
        self.assertEqual(len(kazoo.sent), 2)
        kazoo.sent[1][1]("/logd", None)
        self.successResultOf(self.opened)
        self.assertEqual(self.kept.session_id, 2)
        self.kept.close()
        self.assertEqual(self.turns.getDelayedCalls(), [])

    def test_a_listener_may_close_a_session_that_is_over(self) -> None:
        """It hears nothing more, and nothing goes on."""
        kazoo = self.played[0]
        kazoo.tell(SessionState.CONNECTED, 1)
        kazoo.sent[0][1]("/logd", None)
        self.successResultOf(self.opened)
        kazoo.events.ended(RuntimeError("an answer that makes no sense"))
        self.turns.advance(1)
        self.assertEqual(self.played[1].identity, (1, b"password"))
        self.kept.subscribe(self.close_when_over)
        self.played[1].tell(SessionState.CONNECTED, 2)
        self.assertEqual(self.states[-2:], [SessionState.LOST, SessionState.CLOSED])
        self.assertIs(self.kept.state, SessionState.CLOSED)
        self.assertTrue(self.played[1].ended)
        self.assertEqual(self.turns.getDelayedCalls(), [])

    def test_a_session_that_cannot_be_made_is_made_later(self) -> None:
        """As long as the process has no file descriptor or no thread left, it is tried again every second."""
        kazoo = self.played[0]
        kazoo.tell(SessionState.CONNECTED, 1)
        self.failing = [OSError(errno.EMFILE, "too many open files"), RuntimeError("can't start new thread")]
        kazoo.may_end = False
        kazoo.events.ended(RuntimeError("an answer that makes no sense"))
        for _ in range(2):
            self.turns.advance(1)
            self.assertEqual(len(self.played), 1)
        self.turns.advance(1)
        self.played[1].tell(SessionState.CONNECTED, 1)
        self.assertEqual(self.states, [SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.CONNECTED])
        self.kept.close()
        self.failureResultOf(self.opened, ClientClosing)  # the chroot was not made
        self.assertEqual(self.turns.getDelayedCalls(), [])

    def test_refused_credentials_end_the_session(self) -> None:
        """The caller that opens it gets AuthFailed."""
        self.played[0].events.ended(None)
        self.failureResultOf(self.opened, AuthFailed)
        self.assertIs(self.kept.state, SessionState.CLOSED)
