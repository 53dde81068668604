"""One consumer's membership of a group: joins, rebalances at each change, commits, stops when cut off, leaves.

A rebalance is the paper's Algorithm 1 (section 3.2) in this order: stop fetching and drop buffered messages; commit;
release the owned partitions; read the registries; compute; claim all or nothing; start. After a conflict nothing is
claimed: wait, then begin again. Watch firings are gathered, and there is one rebalance at a time. When the registries
give the same share as before, nothing is stopped, unless positions were moved from outside (see group_changes).

The cost for a consumer with k partitions, beside the reads of the view: k reads of offsets, all sent at once, and
three transactions for each hundred partitions (commits, releases, claims with their fences). So a group of C consumers
over P partitions does about 5 C + P operations each time that a consumer joins or leaves, P of them small reads;
nothing grows with C times P.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.backoff import Backoff
from logd.coord.errors import ConnectionLoss, CoordinationError, NoNode, SessionExpired
from logd.coord.groups.claims import Claims, Conflict
from logd.coord.groups.commit_timer import CommitTimer
from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.member_registration import Registration
from logd.coord.groups.records import FOLLOWING, Counts, Phase, Timing
from logd.coord.groups.registry_view import GroupView, Registries
from logd.coord.groups.tenure import Tenure
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState, WatchEvent
from logd.coord.registries.consumers import ConsumerRegistry, Subscription
from logd.coord.registries.offsets import OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from logd.deferreds.background import Background
from logd.deferreds.sleeping import InterruptibleSleep
from logd.deferreds.timeouts import with_timeout
from logd.deferreds.waiting import OneTimeEvent, WaitingDeferreds
from logd.errors import ClientClosed, PartitionLost
from logd.interfaces import Clock
from logd.topic import TopicPartition


class GroupMembership:
    """A membership of one group. For the reactor's thread alone. ``random`` returns a float in [0, 1)."""

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
        """``consumer``: this member's id, unique among all members ever. Raises ValueError for a bad group name."""
        self.group = group
        self.phase = Phase.IDLE
        self.counts = Counts()
        self._coordination = coordination
        self._clock = clock
        self._timing = timing = timing or Timing()
        self._subscription = Subscription()
        registry = ConsumerRegistry(coordination, group)
        self._registration = Registration(registry, consumer)
        self._claims = Claims(coordination, OwnerRegistry(coordination, group), OffsetRegistry(coordination, group))
        self._view = GroupView(coordination, registry, self._changed)
        self._tenure = Tenure(coordination, clock, reader, self._cut_off)
        self._session = 0
        #: True if something may have changed since the registries were last read.
        self._wanted = False
        self._backoff = Backoff(timing.first_wait, timing.longest_wait, random)
        self._sleep = InterruptibleSleep(clock)
        self._background = Background(f"the membership of group {group}")
        self._commits = CommitTimer(clock, timing.commit_interval, self._may_commit, self._commit_quietly)
        self._unsubscribe: Callable[[], None] | None = None
        self._settled: WaitingDeferreds[None] = WaitingDeferreds()
        self._left = OneTimeEvent()

    @property
    def consumer(self) -> str:
        """The id of this consumer's registration, present or future."""
        return self._registration.name

    @property
    def streams(self) -> dict[TopicPartition, str]:
        """The partitions owned, each with its stream's id."""
        return self._claims.streams

    def may_deliver(self) -> bool:
        """Return whether the partitions may be delivered now: they are held, and the session is certainly alive.

        If that ends before the timer fires (the process stood still), the membership stops at once.
        """
        if self._tenure.delivering and not self._tenure.in_touch:
            self._cut_off()
        return self._tenure.delivering

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe to these topics from now on. The first call joins the group."""
        self._subscription = subscription
        if self.phase is Phase.IDLE:
            self._enter(Phase.WAITING)
            self._unsubscribe = self._coordination.subscribe(self._session_is)
            self._background.start(self._run())
            self._commits.start()
        self._changed()

    def settled(self) -> Deferred[None]:
        """Return a Deferred that fires once the share is settled. Fails with ClientClosed after ``leave``."""
        if self.phase is Phase.LEFT:
            return fail(ClientClosed(f"the consumer has left group {self.group!r}"))
        return succeed(None) if self.phase is Phase.STEADY and not self._wanted else self._settled.new()

    def commit(self) -> Deferred[None]:
        """Commit the positions that the reader has handled.

        Fails with PartitionLost when some partitions turned out to belong to others (the rest is committed), with
        ClientClosed after ``leave``, and with a CoordinationError.
        """
        return Deferred.fromCoroutine(self._commit())

    def leave(self) -> Deferred[None]:
        """Stop, commit, release and deregister, so that others take over at once. Never fails.

        Takes at most ``leave`` seconds of the timing; claims that could not be released by then end with the session.
        """
        if self.phase is not Phase.LEFT:
            self._enter(Phase.LEFT)
            self._end().addBoth(lambda _: self._left.happen())
        return self._left.wait()

    # The main loop.

    async def _run(self) -> None:
        while True:
            if not self._wanted or self._coordination.state is not SessionState.CONNECTED:
                await self._sleep.sleep(None)
                continue
            await self._sleep.sleep(self._timing.settle, interruptible=False)
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
                level = "warn" if self._backoff.failures else "debug"
                getattr(self._log, level)("group {group}: trying again after {error!r}", group=self.group, error=error)
            except Exception:
                self._count(errors=1)
                self._log.failure("a bug in the membership of group {group}", group=self.group)
            else:
                self._backoff.reset()
                if self._tenure.delivering:  # else the session was lost, and CONNECTED will follow
                    self._enter(Phase.STEADY)
                    self._settled.fire(None)
                continue
            self._wanted = True
            self._enter(Phase.WAITING)
            await self._wait(blocker)

    async def _rebalance(self) -> None:
        """Change from the share that is held to the one that the registries give now."""
        coordination = self._coordination
        session = coordination.session_id
        tenure = self._tenure
        if session != self._session:
            tenure.stop()
            self._registration.forget()
            tenure.end()  # the claims know their session themselves
            self._session = session
        if tenure.delivering and self._registration.subscription == self._subscription:
            registries = await self._look(self._subscription)
            remade = tenure.remade(registries, self._claims.streams)
            unmoved = not remade and not tenure.is_moved(registries)
            if unmoved and registries.share(self.consumer) == self._claims.share:
                return
            for where in remade:  # a position in the former topic must not be committed for this one
                self._log.warn("group {group}: {where} was deleted and created again", group=self.group, where=where)
                tenure.lost(where)
        self._enter(Phase.REBALANCING)
        self._count(rebalances=1)
        await tenure.stop()
        self._report(await self._claims.commit(tenure.handled))
        tenure.end()
        await self._claims.release()
        subscription = self._subscription
        await self._registration.renew(subscription)
        registries = await self._look(subscription)
        positions = await self._claims.claim(registries.share(self.consumer))
        if coordination.session_id != session or not tenure.in_touch:
            raise SessionExpired(f"group {self.group!r}: the session changed during the rebalance")
        tenure.begin(self._claims.streams, positions, registries)  # as they were before the positions were read

    async def _look(self, subscription: Subscription) -> Registries:
        """Read the registries, with this consumer's own entry among them: an entry that was removed is created again.

        The owned partitions stay owned meanwhile, so nothing has to stop.
        """
        registries = await self._view.read(subscription)
        if self.consumer not in registries.consumers:
            if self._coordination.session_id != self._session:
                raise SessionExpired(f"group {self.group!r}: the session changed during the rebalance")
            self._log.warn(
                "group {group}: the entry of live consumer {consumer} was removed from outside: registering again",
                group=self.group,
                consumer=self.consumer,
            )
            self._registration.forget()
            await self._registration.renew(subscription)
            registries = await self._view.read(subscription)
            if self.consumer not in registries.consumers:
                raise NoNode(f"group {self.group!r}: the entry of {self.consumer} was removed again at once")
        return registries

    async def _commit(self) -> None:
        if self.phase is Phase.LEFT:
            raise ClientClosed(f"the consumer has left group {self.group!r}")
        lost = self._report(await self._claims.commit(self._tenure.handled))
        if lost:
            names = "; ".join(map(str, lost))
            raise PartitionLost(f"group {self.group!r}: not committed, since other consumers own them now: {names}")
        self._count(commits=1)

    def _report(self, lost: list[TopicPartition]) -> list[TopicPartition]:
        """Give up the partitions that a commit has shown to belong to others."""
        for where in lost:
            self._count(fenced=1)
            self._log.warn("group {group}: {where} belongs to another consumer now", group=self.group, where=where)
            self._tenure.lost(where)
        if lost:
            self._changed()
        return lost

    def _may_commit(self) -> bool:
        return self._tenure.delivering and self._coordination.state is SessionState.CONNECTED

    def _commit_quietly(self) -> Deferred[None]:
        return self.commit().addErrback(self._not_committed)

    def _not_committed(self, failure: Failure) -> None:
        if not failure.check(CoordinationError, PartitionLost, ClientClosed):
            return self._bug(failure)
        self._log.debug("group {group}: no commit: {error!r}", group=self.group, error=failure.value)

    # Notifications.

    def _changed(self) -> None:
        """Note that something read has changed, and read again."""
        self._wanted = True
        self._sleep.wake()

    def _session_is(self, state: SessionState) -> None:
        if state in (SessionState.LOST, SessionState.CLOSED):
            self._tenure.stop()
            self._tenure.end()
            self._enter(Phase.WAITING)
            self._claims.forget()  # at once: nothing may be committed for them in the next session
        elif state is SessionState.CONNECTED:
            self._backoff.reset()
            self._changed()

    def _cut_off(self) -> None:
        """Stop, since nothing was heard for too long and others may soon own the partitions. CONNECTED resumes."""
        self._count(silences=1)
        self._log.warn(
            "group {group}: no contact with the coordination tree, so delivery stops until it answers", group=self.group
        )
        self._tenure.stop()
        self._enter(Phase.WAITING)
        self._changed()

    def _enter(self, phase: Phase) -> None:
        """Enter another phase; a membership that was left stays so, whatever was still under way."""
        if self.phase is not Phase.LEFT:
            if phase not in FOLLOWING[self.phase]:
                raise RuntimeError(f"a membership that is {self.phase.value} cannot become {phase.value}")
            self.phase = phase

    # Waiting.

    async def _wait(self, blocker: str | None) -> None:
        """Wait before the next attempt, but no longer than the node that is in the way exists."""
        watch: Deferred[WatchEvent] | None = None
        if blocker:
            exists, watch = self._coordination.exists_and_watch(blocker)
            watch.addCallbacks(lambda _: self._sleep.wake(), lambda _: None)
            exists.addCallbacks(lambda stat: self._sleep.wake() if stat is None else None, lambda _: None)
        try:
            await self._sleep.sleep(self._backoff.next())
        finally:
            if watch is not None:
                watch.cancel()

    # The end.

    def _end(self) -> Deferred[None]:
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._commits.stop()
        self._background.stop()
        self._settled.fail(ClientClosed(f"the consumer has left group {self.group!r}"))
        ending = Deferred.fromCoroutine(self._hand_over())
        return with_timeout(self._clock, self._timing.leave, ending).addErrback(self._not_left)

    async def _hand_over(self) -> None:
        try:
            await self._tenure.stop()
            while self._in_session():
                try:
                    self._report(await self._claims.commit(self._tenure.handled))
                    await self._claims.release()
                    await self._registration.end()
                    return
                except ConnectionLoss:
                    if self._coordination.state is not SessionState.SUSPENDED:
                        raise
        finally:
            self._view.close()

    def _in_session(self) -> bool:
        """Return whether its claims may still exist. While suspended, calls wait: the session may outlast this."""
        coordination = self._coordination
        alive = coordination.state in (SessionState.CONNECTED, SessionState.SUSPENDED)
        return alive and coordination.session_id == self._session

    def _not_left(self, failure: Failure) -> None:
        error = failure.value
        self._log.warn(
            "group {group}: left without a handover; the claims end with the session: {error!r}",
            group=self.group,
            error=error,
        )

    def _count(self, **more: int) -> None:
        counts = self.counts
        self.counts = evolve(counts, **{name: getattr(counts, name) + n for name, n in more.items()})

    def _bug(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("a bug in the membership of group {group}", failure, group=self.group)
