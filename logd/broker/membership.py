"""This broker among the others: registered in the coordination tree while it lives, and told who else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.treetopics import TreeTopics
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.registries.brokers import BrokerConflict, BrokerInfo, deregister, register
from logd.coord.registries.mirror import Mirror
from logd.errors import LogdError
from logd.interfaces import Clock, Timer

#: Seconds until a registration that failed is tried again.
RETRY_SECONDS = 1.0
#: Seconds until the registry is told what is stored here after that has changed: of many changes it is told once.
UPDATE_SECONDS = 2.0
#: Seconds that a stopping broker gives the tree for taking its registration away.
LEAVE_SECONDS = 2.0


class Membership:
    """Registers, and again in each new session; compares the topics once that is done. ``stop`` ends it in order."""

    _log = Logger()

    def __init__(
        self,
        tree: ICoordination,
        clock: Clock,
        info: Callable[[], BrokerInfo],
        brokers: Mirror[BrokerInfo],
        topics: TreeTopics,
        begun: Callable[[], None],
    ) -> None:
        """``info()`` is what to register at that moment; ``begun()`` is called when the topics were compared once."""
        self._tree = tree
        self._clock = clock
        self._info = info
        self._brokers = brokers
        self._topics = topics
        self._begun = begun
        #: Why the broker is not registered.
        self.problem: str | None = "the coordination tree was not reached yet"
        self._unsubscribe: Callable[[], None] = lambda: None
        self._working: Deferred[None] | None = None
        self._update: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Connect, and go on trying until that is done."""
        self._unsubscribe = self._tree.subscribe(self._session_changed)
        self._topics.on_change = self._stored_changed
        self._brokers.start()
        if self._tree.state is SessionState.CONNECTED:
            self._session_changed(SessionState.CONNECTED)

    def live(self) -> Mapping[int, tuple[str, int]]:
        """The address of each broker that is registered, as last seen."""
        return {info.id: (info.host, info.port) for info in self._brokers.values.values()}

    def health(self) -> dict[str, Any]:
        """What /health shows of it."""
        return {
            "coordination": self._tree.state.value,
            "registered": self.problem is None,
            "problem": self.problem,
            "brokers": sorted(info.id for info in self._brokers.values.values()),
            "conflicts": dict(self._topics.conflicts),
        }

    async def stop(self) -> None:
        """Finish what is under way, and leave: clients are told of the other brokers from then on. Never fails."""
        self._stopped = True
        self._unsubscribe()
        if self._update is not None:
            self._update.cancel()
            self._update = None
        if self._working is not None:
            self._working.cancel()
        self._brokers.stop()
        await self._topics.stop()
        if self._tree.state is SessionState.CONNECTED:
            try:
                await Deferred.fromCoroutine(deregister(self._tree, self._info())).addTimeout(
                    LEAVE_SECONDS,
                    self._clock,  # type: ignore[arg-type]  # it has what is needed of IReactorTime
                )
            except Exception as error:
                self._log.warn("the registration is left to end with its session: {error!r}", error=error)

    def _session_changed(self, state: SessionState) -> None:
        if self._stopped:
            return
        self._log.info("coordination: the session is {state}", state=state.value)
        if self._working is not None:
            self._working.cancel()
        if state is SessionState.CONNECTED:
            self._begin()
        elif state is SessionState.LOST:
            self.problem = "the session was lost"

    def _begin(self) -> None:
        self._working = Deferred.fromCoroutine(self._join())
        self._working.addErrback(self._failed)

    async def _join(self) -> None:
        """Register, and have the topics compared, however often that has to be tried."""
        while True:
            try:
                await register(self._tree, self._info())
                if self.problem is not None:
                    self._log.info("registered as broker {id}", id=self._info().id)
                self.problem = None
                if not self._topics.settled:
                    await self._topics.begin()
                    self._begun()
                return
            except (CoordinationError, BrokerConflict, ValueError) as error:
                self._say(error)
            await self._pause()

    async def _pause(self) -> None:
        waiting: Deferred[None] = Deferred(lambda _: timer.cancel())
        timer = self._clock.callLater(RETRY_SECONDS, waiting.callback, None)
        await waiting

    def _say(self, error: LogdError | ValueError) -> None:
        if str(error) != self.problem:
            self._log.error("this broker is not registered: {error}", error=str(error))
        self.problem = str(error)

    def _stored_changed(self) -> None:
        if self._update is None and not self._stopped:
            self._update = self._clock.callLater(UPDATE_SECONDS, self._tell)

    def _tell(self) -> None:
        self._update = None
        if self._tree.state is SessionState.CONNECTED and self.problem is None:
            telling = Deferred.fromCoroutine(register(self._tree, self._info()))
            telling.addErrback(lambda failure: self._log.debug("not told: {error}", error=failure.value))

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("a bug in joining the other brokers", failure)
