"""The states of partitions as last seen in the coordination tree, kept current by watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.coord import paths
from logd.coord.errors import CoordinationError, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import EventType, SessionState, SetData, Stat, WatchEvent
from logd.coord.registries.topics import check_identity, make_identity
from logd.deferreds.waiting import OneTimeEvent
from logd.interfaces import Clock

if TYPE_CHECKING:
    from logd.coord.shared_transactions import SharedTransactions

#: The most nodes that are read at a time.
READ_AT_ONCE = 200
#: Seconds before a failed read is repeated.
RETRY_SECONDS = 1.0

Place = tuple[str, int]


class KnownState(NamedTuple):
    """The state of a partition, and the version of its node."""

    state: PartitionState
    version: int
    #: The uuid of the topic that it is a state of.
    uuid: str = ""


class StateChange(NamedTuple):
    """A state that is to be written in place of the one that is known."""

    place: Place
    known: KnownState
    state: PartitionState


class PartitionStates:
    """The states of the partitions that are followed. For the reactor's thread alone.

    A partition costs a watch and a few small objects, so 10,000 of them can be followed. ``changed(topic, partition)``
    is called when a state is seen for the first time, has changed, or is gone. States stay while the tree is away.
    """

    _log = Logger()

    def __init__(
        self,
        coordination: ICoordination,
        clock: Clock,
        changed: Callable[[str, int], None] = lambda topic, number: None,
    ) -> None:
        self.changed = changed
        self._coordination = coordination
        self._clock = clock
        self._known: dict[Place, KnownState] = {}
        #: The partitions that are followed, by topic.
        self._topics: dict[str, set[int]] = {}
        self._uuids: dict[str, str] = {}
        #: The session in which each state was read last, and the change that made its node. Only within both do
        #: versions tell which is later: those of a node that is made again begin at 0, and those of another tree, such
        #: as an earlier copy of this one that was put in its place, may be lower.
        self._lineages: dict[Place, tuple[int, int]] = {}
        #: Each partition that is followed, with the watch on its node; None while it is to be read.
        self._watches: dict[Place, Deferred[WatchEvent] | None] = {}
        self._queue: deque[Place] = deque()
        self._reading: set[Place] = set()
        #: Partitions that were not read yet, by topic, and what waits for them.
        self._first: dict[str, set[int]] = {}
        self._complete: dict[str, OneTimeEvent] = {}
        self._unreadable: dict[Place, str] = {}
        self._unsubscribe: Callable[[], None] | None = None
        #: Made with the first change.
        self._transactions: SharedTransactions | None = None

    def start(self) -> None:
        """Start reading; the session may come later."""
        self._unsubscribe = self._coordination.subscribe(self._session_changed)
        self._work()

    def stop(self) -> None:
        """Stop reading; the states stay."""
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()
        self._queue.clear()
        for place, watch in self._watches.items():
            self._watches[place] = None
            if watch is not None:
                watch.cancel()

    def follow(self, topic: str, uuid: str, partitions: Collection[int]) -> None:
        """Follow these partitions of the topic with this uuid, and no others of that name."""
        if self._uuids.get(topic, uuid) != uuid:
            self.forget(topic)
        self._uuids[topic] = uuid
        before, wanted = self._topics.get(topic, set()), set(partitions)
        for number in before - wanted:
            self._drop((topic, number))
        self._topics[topic] = wanted
        for number in sorted(wanted - before):
            place = (topic, number)
            self._watches[place] = None
            self._first.setdefault(topic, set()).add(number)
            self._queue.append(place)
        self._check_complete(topic)
        self._work()

    def forget(self, topic: str) -> None:
        """Follow no partition of a topic, which was deleted."""
        self._uuids.pop(topic, None)
        for number in self._topics.pop(topic, set()):
            self._drop((topic, number))
        self._check_complete(topic)

    def get(self, topic: str, partition: int) -> KnownState | None:
        """Return a partition's state, None if none is known."""
        return self._known.get((topic, partition))

    def is_read(self, topic: str, partition: int) -> bool:
        """Return whether a partition that is followed was looked for in the tree, readable or not."""
        return partition not in self._first.get(topic, ())

    def is_complete(self, topic: str) -> bool:
        """Return whether all followed partitions of a topic were read."""
        return topic not in self._first

    @property
    def is_connected(self) -> bool:
        """True while there is a session, so that states are read."""
        return self._coordination.state is SessionState.CONNECTED

    def is_followed(self, topic: str) -> bool:
        """Return whether the partitions of a topic are followed."""
        return topic in self._topics

    def when_complete(self, topic: str) -> Deferred[None]:
        """Return a Deferred that fires once all followed partitions of a topic were read. Cancellable; never fails."""
        event = self._complete.get(topic)
        if event is None:
            event = self._complete[topic] = OneTimeEvent()
        self._check_complete(topic)
        return event.wait()

    async def change(self, topic: str, partition: int, known: KnownState, state: PartitionState) -> KnownState:
        """Replace the state ``known``; return the new one, which ``get`` returns from now on.

        Changes of one turn of the reactor share transactions. A lost answer is looked for in the tree. Raises
        CoordinationError: BadVersion if the state was changed meanwhile, NoNode if the topic was deleted, also if it
        was made again, ConnectionLoss or OperationTimeout if the state may or may not be changed.
        """
        try:
            await self._change(topic, partition, known, state)
        except NoNode:
            if not await make_identity(self._coordination, topic, known.uuid):
                raise
            await self._change(topic, partition, known, state)
        changed = KnownState(state, known.version + 1, known.uuid)
        self.took(topic, partition, changed)
        return changed

    async def _change(self, topic: str, partition: int, known: KnownState, state: PartitionState) -> None:
        path, data = paths.partition_state(topic, partition), state.encode()

        async def is_made() -> bool:
            found, stat = await self._coordination.get(path)
            return found == data and stat.version == known.version + 1

        check, change = check_identity(topic, known.uuid), SetData(path, data, known.version)
        if self._transactions is None:
            from logd.coord.shared_transactions import SharedTransactions  # most brokers have no replicated topics

            self._transactions = SharedTransactions(self._coordination, self._clock)
        await self._transactions.make(check, change, is_made)

    def took(self, topic: str, partition: int, known: KnownState) -> None:
        """Take a state that this process has written, before its watch fires. ``changed`` is not called."""
        place = (topic, partition)
        before = self._known.get(place)
        is_later = before is None or before.version < known.version
        if is_later and place in self._watches and self._uuids.get(topic) == known.uuid:
            self._known[place] = known

    # Internals

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._queue.clear()
            self._queue.extend(place for place in self._watches if place not in self._reading)
            for place in self._watches:
                self._watches[place] = None
            self._work()

    def _work(self) -> None:
        while (
            self._queue
            and len(self._reading) < READ_AT_ONCE
            and self._unsubscribe is not None
            and self._coordination.state is SessionState.CONNECTED
        ):
            place = self._queue.popleft()
            if place in self._watches and place not in self._reading:
                self._read(place)

    def _read(self, place: Place) -> None:
        self._reading.add(place)
        uuid = self._uuids.get(place[0], "")
        answer, watch = self._coordination.get_and_watch(paths.partition_state(*place))

        def found(result: tuple[bytes, Stat]) -> None:
            self._reading.discard(place)
            is_followed = place in self._watches and self._unsubscribe is not None
            if is_followed and self._uuids.get(place[0]) == uuid:
                self._watches[place] = watch
                watch.addCallbacks(lambda event: self._fired(place, watch, event), lambda failure: None)
                self._take(place, uuid, *result)
            else:
                if is_followed:  # this was perhaps a state of the topic that had the name before
                    self._queue.append(place)
                watch.addErrback(lambda failure: None)
                watch.cancel()
            self._work()

        def failed(failure: Failure) -> None:
            self._reading.discard(place)
            is_followed = place in self._watches and self._unsubscribe is not None
            if is_followed and self._uuids.get(place[0]) != uuid:  # it was perhaps about that former topic, too
                self._queue.append(place)
            elif is_followed:
                if failure.check(NoNode):
                    self._gone(place)
                    self._later(place)
                elif failure.check(CoordinationError):
                    self._later(place)
                else:
                    self._log.failure("the state of {place} cannot be read", failure, place=place)
            self._work()

        answer.addCallbacks(found, failed)

    def _later(self, place: Place) -> None:
        def again() -> None:
            if place in self._watches and self._watches[place] is None:
                self._queue.append(place)
                self._work()

        self._clock.callLater(RETRY_SECONDS, again)

    def _fired(self, place: Place, watch: Deferred[WatchEvent], event: WatchEvent) -> None:
        if self._watches.get(place) is not watch:
            return
        self._watches[place] = None
        if event.type is not EventType.SESSION:  # else all is read again with the next session
            self._queue.append(place)
            self._work()

    def _take(self, place: Place, uuid: str, data: bytes, stat: Stat) -> None:
        try:
            known = KnownState(PartitionState.decode(data), stat.version, uuid)
        except ValueError as error:
            if self._unreadable.get(place) != str(error):
                self._unreadable[place] = str(error)
                self._log.error("{path} cannot be read: {error}", path=paths.partition_state(*place), error=str(error))
            self._seen(place)
            return
        self._unreadable.pop(place, None)
        before, lineage = self._known.get(place), (self._coordination.session_id, stat.created_zxid)
        if before is None or before.version <= known.version or self._lineages.get(place) != lineage:
            self._known[place] = known
        self._lineages[place] = lineage
        self._seen(place)
        self._notify(place)

    def _gone(self, place: Place) -> None:
        """Take note that there is no such node: the topic is being deleted, or was made by hand."""
        self._seen(place)
        if self._known.pop(place, None) is not None:
            self._notify(place)

    def _drop(self, place: Place) -> None:
        watch = self._watches.pop(place, None)
        self._known.pop(place, None)
        self._lineages.pop(place, None)
        self._was_first(place)
        self._unreadable.pop(place, None)
        if watch is not None:
            watch.cancel()

    def _notify(self, place: Place) -> None:
        try:
            self.changed(*place)
        except Exception:
            self._log.failure("cannot act on the state of {topic}-{partition}", topic=place[0], partition=place[1])

    def _seen(self, place: Place) -> None:
        if self._was_first(place):
            self._check_complete(place[0])

    def _was_first(self, place: Place) -> bool:
        """Return whether a partition was not read before; from now on it counts as read."""
        topic, number = place
        unread = self._first.get(topic)
        if unread is None or number not in unread:
            return False
        unread.remove(number)
        if not unread:
            del self._first[topic]
        return True

    def _check_complete(self, topic: str) -> None:
        event = self._complete.get(topic)
        if event is not None and self.is_complete(topic):
            del self._complete[topic]
            event.happen()
