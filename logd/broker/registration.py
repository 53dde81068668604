"""This broker among the others: registered in the coordination tree while it lives, and told who else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.topics.reconciler import TopicReconciler
from logd.coord.ephemeral import HeldElsewhere
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.kept_ephemeral import KeptEphemeral
from logd.coord.records import SessionState
from logd.coord.registries.brokers import BrokerInfo, conflict, keep_registered
from logd.coord.registries.child_cache import ChildCache
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock, Timer

#: Seconds until what failed is tried again.
RETRY_SECONDS = 1.0
#: Seconds until the registry is told what is stored here after that has changed: of many changes it is told once.
UPDATE_SECONDS = 2.0
#: Seconds that a stopping broker gives the tree for taking its registration away.
LEAVE_SECONDS = 2.0


class BrokerRegistration:
    """Registers, and again in each new session; compares the topics once that is done. ``stop`` ends it in order."""

    _log = Logger()

    def __init__(
        self,
        tree: ICoordination,
        clock: Clock,
        info: Callable[[], BrokerInfo],
        brokers: ChildCache[BrokerInfo],
        reconciler: TopicReconciler,
        begun: Callable[[], None],
    ) -> None:
        """``info()`` is what to register at that moment; ``begun()`` is called when the topics were compared once."""
        self._tree = tree
        self._clock = clock
        self._info = info
        self._brokers = brokers
        self.reconciler = reconciler
        self._begun = begun
        #: What went wrong last with being registered.
        self._trouble = "the coordination tree was not reached yet"
        self._presence: KeptEphemeral | None = None
        self._background = Background("joining the other brokers")
        self._update: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Register as soon as there is a session, and go on trying until that is done."""
        self.reconciler.on_change = self._stored_changed
        self._brokers.start()
        self._background.start(self._join())

    @property
    def problem(self) -> str | None:
        """Why the others do not know of this broker; None when they do."""
        if self._tree.state is SessionState.CONNECTED:
            return None if self.registered else self._trouble
        return f"the session with the coordination tree is {self._tree.state.value}"

    @property
    def registered(self) -> bool:
        """Whether this broker, and no other of its id, is registered, as last seen."""
        info = self._info()
        seen = self._brokers.values.get(str(info.id))
        return seen is not None and seen.instance == info.instance

    @property
    def state(self) -> SessionState:
        """How the session with the tree is."""
        state: SessionState = self._tree.state
        return state

    @property
    def contact_age(self) -> float:
        """Seconds since the tree was last known to have heard of this broker."""
        last: float = self._tree.last_contact
        return max(self._clock.seconds() - last, 0.0)

    @property
    def conflicts(self) -> Mapping[str, str]:
        """Why what is stored of a topic is not served, by topic."""
        return self.reconciler.conflicts

    def live(self) -> Mapping[int, tuple[str, int]]:
        """The address of each broker that is registered, as last seen. May be called on any thread."""
        return {info.id: (info.host, info.port) for info in list(self._brokers.values.values())}

    def health(self) -> dict[str, Any]:
        """What /health shows of it."""
        return {
            "coordination": self._tree.state.value,
            "contact_age": round(self.contact_age, 3),
            "registered": self.registered,
            "problem": self.problem,
            "brokers": sorted(info.id for info in self._brokers.values.values()),
            "conflicts": dict(self.reconciler.conflicts),
        }

    async def stop(self) -> None:
        """Finish what is under way, and leave: clients are told of the other brokers from then on. Never fails."""
        self._stopped = True
        if self._update is not None:
            self._update.cancel()
            self._update = None
        self._background.stop()
        self._brokers.stop()
        self.reconciler.halt()
        if self._presence is not None:
            await self._presence.stop(LEAVE_SECONDS)
        await self.reconciler.when_idle()

    async def _join(self) -> None:
        """Register, and have the topics compared, however often that has to be tried."""
        while self._presence is None:
            info = self._info()
            presence = keep_registered(self._tree, self._clock, info, self._not_kept)
            try:
                await presence.start()
                self._presence = presence
                self._log.info("registered as broker {id}", id=info.id)
            except CoordinationError as error:
                self._say(error)
                await sleep(self._clock, RETRY_SECONDS)
        while not self.reconciler.settled:
            try:
                await self.reconciler.begin()
                self._begun()
            except CoordinationError as error:
                self._say(error)
                await sleep(self._clock, RETRY_SECONDS)

    def _not_kept(self, failure: Failure) -> None:
        if failure.value is not None:
            self._say(failure.value)

    def _say(self, error: BaseException) -> None:
        text = conflict(self._info(), error) if isinstance(error, HeldElsewhere) else str(error)
        if text != self._trouble:
            self._log.error("this broker is not registered: {error}", error=text)
        self._trouble = text

    def _stored_changed(self) -> None:
        if self._update is None and not self._stopped:
            self._update = self._clock.callLater(UPDATE_SECONDS, self._tell)

    def _tell(self) -> None:
        self._update = None
        if self._presence is not None:
            self._presence.update(self._info().encode()).addErrback(lambda failure: failure.trap(CoordinationError))
