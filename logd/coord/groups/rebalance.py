"""One consumer's membership of a group: joins, rebalances at each change, commits, stops when cut off, leaves.

A rebalance is the paper's Algorithm 1 (section 3.2) in this order: stop fetching and drop what is held; commit; release
what is owned; read the registries; compute; claim all or nothing; start. On a conflict: nothing is claimed, wait, begin
again. Firings of watches are gathered, and there is one rebalance at a time. A look that gives the same share as before
changes nothing, and nothing is stopped, unless positions were moved from outside (see administration).

What one costs a consumer with k partitions, beside what the view reads: k reads of offsets, all sent at once, and
three transactions for each hundred partitions (commits, releases, claims with their fences). So a group of C consumers
over P partitions does about 5 C + P operations for each coming or going, P of them small reads; nothing grows with C
times P.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.coord.errors import CoordinationError, NoNode, SessionExpired
from logd.coord.groups.holdings import Conflict, Holdings
from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.records import Counts, Phase, Timing
from logd.coord.groups.silence import SilenceTimer
from logd.coord.groups.view import GroupView
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState, WatchEvent
from logd.coord.registries.consumers import ConsumerRegistry, Subscription
from logd.coord.registries.offsets import OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from logd.errors import ClientClosed, PartitionLost
from logd.interfaces import Clock, Timer
from logd.topic import TopicPartition


class Membership:
    """For the reactor's thread alone. ``random`` returns a float in [0, 1)."""

    _log = Logger()

    def __init__(
        self,
        coordination: ICoordination,
        clock: Clock,
        group: str,
        consumer: str,
        reader: IGroupReader,
        random: Callable[[], float],
        timing: Timing | None = None,
    ) -> None:
        """``consumer``: this one's id, another for each member that ever was. Raises ValueError for a group's name."""
        self.group = group
        self.phase = Phase.IDLE
        self.counts = Counts()
        self._coordination = coordination
        self._clock = clock
        self._name = consumer
        self._reader = reader
        self._random = random
        self._timing = timing or Timing()
        self._subscription = Subscription()
        self._registered: tuple[str, Subscription] | None = None
        self._registrations = 0
        self._registry = ConsumerRegistry(coordination, group)
        self._owners = OwnerRegistry(coordination, group)
        self._holdings = Holdings(coordination, self._owners, OffsetRegistry(coordination, group))
        self._view = GroupView(coordination, self._registry, self._changed)
        self._silence = SilenceTimer(coordination, clock, self._cut_off)
        self._session = 0
        self._moved = 0
        self._wanted = False
        self._started = False
        self._failures = 0
        self._pause: Deferred[None] | None = None
        self._loop: Deferred[None] | None = None
        self._commits: Timer | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._settled: list[Deferred[None]] = []
        self._leaving: Deferred[None] | None = None

    @property
    def consumer(self) -> str:
        """The id under which it is registered, or will be."""
        return self._registered[0] if self._registered is not None else self._name

    @property
    def streams(self) -> dict[TopicPartition, str]:
        """What it owns, each with its stream's id."""
        return self._holdings.streams

    def may_deliver(self) -> bool:
        """Whether its partitions may be delivered at this moment: it holds them, and is surely in touch.

        When that is found to be over before the timer says so (the process stood still), it stops at once.
        """
        if self._started and not self._silence.held:
            self._cut_off()
        return self._started

    def subscribe(self, subscription: Subscription) -> None:
        """Read these from now on. The first time it joins the group."""
        self._subscription = subscription
        if self._loop is None and self.phase is not Phase.LEFT:
            self.phase = Phase.WAITING
            self._unsubscribe = self._coordination.subscribe(self._session_is)
            self._loop = Deferred.fromCoroutine(self._run())
            self._loop.addErrback(self._bug)
            self._tick()
        self._changed()

    def settled(self) -> Deferred[None]:
        """Fires once it has its share by what it has seen. Fails with ClientClosed when it leaves before."""
        waiting: Deferred[None] = Deferred(lambda d: self._settled.remove(d) if d in self._settled else None)
        if self.phase is Phase.LEFT:
            waiting.errback(ClientClosed(f"the consumer has left group {self.group!r}"))
        elif self.phase is Phase.STEADY and not self._wanted:
            waiting.callback(None)
        else:
            self._settled.append(waiting)
        return waiting

    def commit(self) -> Deferred[None]:
        """Store how far the reader has handled its partitions.

        Fails with PartitionLost when some turned out to be another consumer's (the others are stored), with
        ClientClosed after ``leave``, and with a CoordinationError.
        """
        return Deferred.fromCoroutine(self._commit())

    def leave(self) -> Deferred[None]:
        """Stop, commit, release and deregister, so that others take over at once. Never fails; takes at most a while.

        What could not be released ends with the session.
        """
        if self._leaving is None:
            left = self._leaving = Deferred()
            self._end().addBoth(lambda _: left.callback(None))
        waiting: Deferred[None] = Deferred()
        self._leaving.addCallback(lambda _: waiting.callback(None))
        return waiting

    # What it goes through.

    async def _run(self) -> None:
        while True:
            if not self._wanted or self._coordination.state is not SessionState.CONNECTED:
                await self._sleep(None)
                continue
            await self._sleep(self._timing.settle, wakeful=False)
            if self._coordination.state is not SessionState.CONNECTED:
                continue
            self._wanted = False
            blocker: str | None = None
            try:
                await self._rebalance()
            except Conflict as error:
                self._count(conflicts=1)
                self._log.debug("group {group}: {error}", group=self.group, error=error)
                blocker = error.path
            except CancelledError:
                raise
            except CoordinationError as error:
                self._count(errors=1)
                level = "warn" if self._failures else "debug"
                getattr(self._log, level)("group {group}: trying again after {error!r}", group=self.group, error=error)
            except Exception:
                self._count(errors=1)
                self._log.failure("a bug in the membership of group {group}", group=self.group)
            else:
                self._failures = 0
                self.phase = Phase.STEADY
                settled, self._settled = self._settled, []
                for each in settled:
                    each.callback(None)
                continue
            self._wanted = True
            self.phase = Phase.WAITING
            await self._wait(blocker)

    async def _rebalance(self) -> None:
        """Come from the share that is held to the one that the registries give now."""
        coordination = self._coordination
        session = coordination.session_id
        if session != self._session:
            self._stop()
            self._holdings.forget()
            self._registered = None
            self._session = session
        if self._started and self._registered is not None and self._registered[1] == self._subscription:
            registries = await self._view.read(self._subscription)
            if registries.moved == self._moved and registries.share(self.consumer) == self._holdings.streams:
                return
        self.phase = Phase.REBALANCING
        self._count(rebalances=1)
        await self._stop()
        self._report(await self._holdings.commit(self._reader.handled))
        await self._holdings.release()
        name, subscription = await self._register()
        registries = await self._view.read(subscription)
        positions = await self._holdings.claim(registries.share(name))
        self._moved = registries.moved  # as it was before the positions were read
        if coordination.session_id != session or not self._silence.held:
            raise SessionExpired(f"group {self.group!r}: the session changed on the way")
        self._started = True
        self._silence.begin()
        self._reader.start(self._holdings.streams, positions)

    async def _register(self) -> tuple[str, Subscription]:
        """Be in the registry, with the subscription as it is now: another one takes another name."""
        former = self._registered
        if former is not None and former[1] == self._subscription:
            return former
        if former is not None:
            with suppress(NoNode):
                await self._registry.deregister(former[0])
            self._registered = None
            self._registrations += 1
        name = f"{self._name}.{self._registrations}" if self._registrations else self._name
        subscription = self._subscription
        await self._registry.register(name, subscription)
        self._registered = name, subscription
        return self._registered

    def _stop(self) -> Deferred[None]:
        """Let nothing more be delivered."""
        self._started = False
        self._silence.end()
        waiting = self._reader.stop()
        return succeed(None) if waiting is None else waiting

    async def _commit(self) -> None:
        if self.phase is Phase.LEFT:
            raise ClientClosed(f"the consumer has left group {self.group!r}")
        lost = self._report(await self._holdings.commit(self._reader.handled))
        if lost:
            names = "; ".join(map(str, lost))
            raise PartitionLost(f"group {self.group!r}: not committed, since others own them by now: {names}")
        self._count(commits=1)

    def _report(self, lost: list[TopicPartition]) -> list[TopicPartition]:
        """Give up what a commit has shown to be another's."""
        for where in lost:
            self._count(fenced=1)
            self._log.warn("group {group}: {where} is another consumer's by now", group=self.group, where=where)
            self._reader.lost(where)
        if lost:
            self._changed()
        return lost

    def _tick(self) -> None:
        """Commit from time to time."""
        interval = self._timing.commit_interval
        if interval > 0.0 and self.phase is not Phase.LEFT:
            self._commits = self._clock.callLater(interval, self._tick_now)

    def _tick_now(self) -> None:
        self._commits = None
        if self._started and self._coordination.state is SessionState.CONNECTED:
            self.commit().addErrback(self._not_committed).addBoth(lambda _: self._tick())
        else:
            self._tick()

    def _not_committed(self, failure: Failure) -> None:
        failure.trap(CoordinationError, PartitionLost, ClientClosed, CancelledError)
        self._log.debug("group {group}: no commit: {error!r}", group=self.group, error=failure.value)

    # What it is told.

    def _changed(self) -> None:
        """Something that it has seen is not so any more: look again."""
        self._wanted = True
        self._wake()

    def _session_is(self, state: SessionState) -> None:
        if state in (SessionState.LOST, SessionState.CLOSED):
            self._stop()
            self._holdings.forget()  # at once: in the next session nothing is to be committed for them
        elif state is SessionState.CONNECTED:
            self._failures = 0
            self._changed()

    def _cut_off(self) -> None:
        """Nothing was heard for too long: others may own the partitions soon. A CONNECTED will set things going."""
        self._count(silences=1)
        self._log.warn("group {group}: no contact with the tree, so nothing is delivered", group=self.group)
        self._stop()
        if self.phase is not Phase.LEFT:
            self.phase = Phase.WAITING
        self._changed()

    # How it waits.

    async def _wait(self, blocker: str | None) -> None:
        """Wait before trying again; not longer than the node is there that was in the way."""
        timing = self._timing
        delay = min(timing.longest_wait, timing.first_wait * 2.0 ** min(self._failures, 30))
        self._failures += 1
        watch: Deferred[WatchEvent] | None = None
        if blocker:
            exists, watch = self._coordination.exists_and_watch(blocker)
            watch.addCallbacks(lambda _: self._wake(), lambda _: None)
            exists.addCallbacks(lambda stat: self._wake() if stat is None else None, lambda _: None)
        await self._sleep(delay * (0.5 + 0.5 * self._random()))
        if watch is not None:
            watch.cancel()

    async def _sleep(self, seconds: float | None, wakeful: bool = True) -> None:
        """Sleep until it is time (None: for ever), or until somebody wakes us."""
        pause: Deferred[None] = Deferred()
        timer = None if seconds is None else self._clock.callLater(seconds, _wake_from, pause)
        self._pause = pause if wakeful else None
        try:
            await pause
        finally:
            self._pause = None
            if timer is not None and timer.active():
                timer.cancel()

    def _wake(self) -> None:
        if self._pause is not None:
            _wake_from(self._pause)

    # How it ends.

    def _end(self) -> Deferred[None]:
        self.phase = Phase.LEFT
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._commits is not None and self._commits.active():
            self._commits.cancel()
        if self._loop is not None:
            self._loop.cancel()
        settled, self._settled = self._settled, []
        for each in settled:
            each.errback(ClientClosed(f"the consumer has left group {self.group!r}"))
        ending = Deferred.fromCoroutine(self._hand_over())
        ending.addTimeout(self._timing.leave, self._clock)  # type: ignore[arg-type]  # callLater is all it takes
        return ending.addErrback(self._not_left)

    async def _hand_over(self) -> None:
        in_touch = self._coordination.state is SessionState.CONNECTED and self._coordination.session_id == self._session
        try:
            await self._stop()
            if in_touch:
                self._report(await self._holdings.commit(self._reader.handled))
                await self._holdings.release()
                if self._registered is not None:
                    await self._registry.deregister(self._registered[0])
        finally:
            self._view.close()

    def _not_left(self, failure: Failure) -> None:
        error = failure.value
        self._log.warn("group {group}: left without handing over: {error!r}", group=self.group, error=error)

    def _count(self, **more: int) -> None:
        counts = self.counts
        self.counts = evolve(counts, **{name: getattr(counts, name) + n for name, n in more.items()})

    def _bug(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("a bug in the membership of group {group}", failure, group=self.group)


def _wake_from(pause: Deferred[None]) -> None:
    if not pause.called:
        pause.callback(None)
