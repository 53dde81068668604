"""The registration of this broker in the coordination tree while it runs, and its view of the live brokers."""

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
from logd.coord.registries.cluster import cluster_uuid
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock, Timer

#: Seconds until a failed attempt is repeated.
RETRY_SECONDS = 1.0
#: Seconds from a change of the stored topics until the registration is updated, once for many changes.
UPDATE_SECONDS = 2.0
#: Seconds that a stopping broker waits for the tree to remove its registration.
LEAVE_SECONDS = 2.0


class BrokerRegistration:
    """Registers in each new session, and compares the topics after the first registration. End it with ``stop``."""

    _log = Logger()

    def __init__(
        self,
        tree: ICoordination,
        clock: Clock,
        info: Callable[[bool], BrokerInfo],
        brokers: ChildCache[BrokerInfo],
        reconciler: TopicReconciler,
        begun: Callable[[], None],
    ) -> None:
        """``info(whole)`` returns the registration's content, with the stored partitions if ``whole``.

        ``begun()`` is called after the first comparison of topics.
        """
        self._tree = tree
        self._clock = clock
        self._info = info
        self._brokers = brokers
        self.reconciler = reconciler
        self._begun = begun
        #: The cluster's uuid, empty while it is not known.
        self.cluster = ""
        #: The last problem with the registration.
        self._trouble = "the coordination tree has not answered yet"
        self._registration: KeptEphemeral | None = None
        #: The session in which this broker has registered last.
        self._session = 0
        self._background = Background("joining the other brokers")
        self._update: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Register as soon as there is a session, and retry until that succeeds."""
        self.reconciler.on_change = self._stored_changed
        self._brokers.start()
        self._background.start(self._join())

    @property
    def problem(self) -> str | None:
        """The reason why this broker is not registered; None if it is."""
        if self._tree.state is SessionState.CONNECTED:
            return None if self.registered else self._trouble
        return f"the session with the coordination tree is {self._tree.state.value}"

    @property
    def registered(self) -> bool:
        """True if this broker, and not another one of its id, is registered, as last seen."""
        info = self._info(False)
        seen = self._brokers.values.get(str(info.id))
        return seen is not None and seen.instance == info.instance

    @property
    def state(self) -> SessionState:
        """The state of the session with the tree."""
        state: SessionState = self._tree.state
        return state

    @property
    def contact_age(self) -> float:
        """Seconds since the tree is known to have heard of this broker."""
        last: float = self._tree.last_contact
        return max(self._clock.seconds() - last, 0.0)

    @property
    def conflicts(self) -> Mapping[str, str]:
        """The reasons why stored partitions are not served, by topic."""
        return self.reconciler.conflicts

    def live(self) -> Mapping[int, tuple[str, int]]:
        """Return the address of each registered broker, as last seen. May be called on any thread."""
        return {info.id: (info.host, info.port) for info in list(self._brokers.values.values())}

    def live_kafka(self) -> Mapping[int, tuple[tuple[str, int], ...]]:
        """Return, of each registered broker, the addresses for clients of today's Kafka. See ``live``."""
        return {info.id: info.kafka for info in list(self._brokers.values.values()) if info.kafka}

    def health(self) -> dict[str, Any]:
        """Return the registration's part of /health."""
        return {
            "coordination": self._tree.state.value,
            "contact_age": round(self.contact_age, 3),
            "registered": self.registered,
            "problem": self.problem,
            "brokers": sorted(info.id for info in self._brokers.values.values()),
            "conflicts": dict(self.reconciler.conflicts),
        }

    async def stop(self) -> None:
        """Finish work under way and deregister, so that clients are told only of other brokers. Never fails."""
        self._stopped = True
        if self._update is not None:
            self._update.cancel()
            self._update = None
        self._background.stop()
        self._brokers.stop()
        self.reconciler.halt()
        if self._registration is not None:
            await self._registration.stop(LEAVE_SECONDS)
        await self.reconciler.when_idle()

    async def _join(self) -> None:
        """Register, then compare the topics; retry each until it succeeds."""
        while self._registration is None:
            info = self._info(True)
            registration = keep_registered(self._tree, self._clock, info, self._not_kept, self._registered_again)
            try:
                await registration.start()
                self._registration, self._session = registration, self._tree.session_id
                self._log.info("registered as broker {id}", id=info.id)
            except CoordinationError as error:
                self._say(error)
                await sleep(self._clock, RETRY_SECONDS)
        while not self.cluster:
            try:
                self.cluster = await cluster_uuid(self._tree)
            except CoordinationError as error:
                self._say(error)
                await sleep(self._clock, RETRY_SECONDS)
            except ValueError as error:
                self._log.error("the cluster's uuid is not known, and clients are not told of it: {error}", error=error)
                break
        while not self.reconciler.settled:
            try:
                await self.reconciler.begin()
                self._begun()
            except CoordinationError as error:
                self._say(error)
                await sleep(self._clock, RETRY_SECONDS)

    def _registered_again(self) -> None:
        # Within one session another client has removed the node, which may happen any number of times.
        if self._tree.session_id != self._session:
            self._session = self._tree.session_id
            self._log.info("registered again as broker {id}", id=self._info(False).id)

    def _not_kept(self, failure: Failure) -> None:
        if failure.value is not None:
            self._say(failure.value)

    def _say(self, error: BaseException) -> None:
        text = conflict(self._info(True), error) if isinstance(error, HeldElsewhere) else str(error)
        if text != self._trouble:
            self._log.error("this broker is not registered: {error}", error=text)
        self._trouble = text

    def _stored_changed(self) -> None:
        if self._update is None and not self._stopped:
            self._update = self._clock.callLater(UPDATE_SECONDS, self._tell)

    def _tell(self) -> None:
        self._update = None
        if self._registration is not None:
            self._registration.update(self._info(True).encode()).addErrback(
                lambda failure: failure.trap(CoordinationError)
            )
