"""One consumer's membership of a group: joins, rebalances at each change, commits, stops when cut off, leaves.

Watch firings are gathered, and there is one rebalance at a time (rebalance.py has its steps). After a conflict nothing
is claimed: wait, then begin again.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.backoff import Backoff
from logd.coord.errors import CoordinationError, NoAuth
from logd.coord.groups.admission import Admission, Prepare
from logd.coord.groups.claims import Conflict
from logd.coord.groups.commit_timer import CommitTimer
from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.member_registration import KafkaMembers
from logd.coord.groups.rebalance import GroupShare, ShareCallbacks
from logd.coord.groups.records import FOLLOWING, Counts, EventCounter, Phase, Timing
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState, WatchEvent
from logd.coord.registries.consumers import Subscription
from logd.deferreds.background import Background
from logd.deferreds.sleeping import InterruptibleSleep
from logd.deferreds.timeouts import fired_within
from logd.deferreds.waiting import OneTimeEvent, WaitingDeferreds
from logd.errors import (
    AuthenticationFailed,
    BrokerUnavailable,
    ClientClosed,
    ConfigurationError,
    GroupAuthorizationFailed,
    LogdError,
    PartitionLost,
    WireError,
)
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
        prepare: Prepare | None = None,
    ) -> None:
        """``consumer``: this member's id, unique among all members ever. Raises ValueError for a bad group name.

        ``prepare(again)`` is awaited before this member joins, and again after the tree has refused a call: it has the
        group's nodes given to this member's user.
        """
        self.phase = Phase.IDLE
        self._coordination = coordination
        self._clock = clock
        self._timing = timing = timing or Timing()
        self._counter = EventCounter()
        callbacks = ShareCallbacks(self._changed, self._rebalancing, self._cut_off)
        self._share = GroupShare(coordination, clock, group, consumer, reader, self._counter, callbacks)
        #: True if something may have changed since the registries were last read.
        self._wanted = False
        self._admission = Admission(prepare)
        self._backoff = Backoff(timing.first_wait, timing.longest_wait, random)
        self._sleep = InterruptibleSleep(clock)
        self._background = Background(f"the membership of group {group}")
        self._commits = CommitTimer(clock, timing.commit_interval, self._may_commit, self._commit_quietly)
        self._unsubscribe: Callable[[], None] | None = None
        self._settled: WaitingDeferreds[None] = WaitingDeferreds()
        self._left = OneTimeEvent()

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._share.group

    @property
    def counts(self) -> Counts:
        """The counts of the events so far."""
        return self._counter.counts

    @property
    def consumer(self) -> str:
        """The id of this consumer's registration, present or future."""
        return self._share.consumer

    @property
    def streams(self) -> dict[TopicPartition, str]:
        """The partitions owned, each with its stream's id."""
        return self._share.streams

    def may_deliver(self) -> bool:
        """Return whether the partitions may be delivered now: they are held, and the session is certainly alive.

        If that ends before the timer fires (the process stood still), the membership stops at once.
        """
        if self._share.delivering and not self._share.in_touch:
            self._cut_off()
        return self._share.delivering

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe to these topics from now on. The first call joins the group."""
        self._share.subscription = subscription
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
        ClientClosed after ``leave``, and with a CoordinationError: SessionExpired from the end of the share's session
        until another share is delivered.
        """
        return Deferred.fromCoroutine(self._commit())

    def leave(self) -> Deferred[None]:
        """Stop, commit, release and deregister, so that others take over at once. Never fails.

        Takes at most ``leave`` seconds of the timing. What could not be done by then goes on: the session may be one
        that others use, and last, so that the partitions would belong to nobody that reads them.
        """
        if self.phase is not Phase.LEFT:
            self._enter(Phase.LEFT)
            self._end().addCallback(self._has_left)
        return self._left.wait()

    def _has_left(self, handed_over: bool) -> None:
        if not handed_over:
            self._log.warn(
                "group {group}: left without a handover within {seconds:g} s; it goes on while the session lasts",
                group=self.group,
                seconds=self._timing.leave,
            )
        self._left.happen()

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
                await self._admission.ask()
                await self._share.rebalance()
            except KafkaMembers as error:
                self._refuse(error)
                blocker = error.path
            except NoAuth as error:
                self._admission.ask_again()
                self._counter.add(errors=1)
                if not self._admission.can_prepare or self._backoff.failures:
                    self._log.warn(
                        "group {group}: trying again after {error} Its nodes belong to others: give the consumer a "
                        "user that may read in the group, or the credentials of their owner",
                        group=self.group,
                        error=str(error),
                    )
            except (AuthenticationFailed, GroupAuthorizationFailed) as error:
                self._refuse(error)
            except (BrokerUnavailable, WireError, ConfigurationError) as error:
                self._counter.add(errors=1)
                self._log.warn("group {group}: no broker prepares it: {error}", group=self.group, error=str(error))
            except Conflict as error:
                self._counter.add(conflicts=1)
                self._log.debug("group {group}: {error}", group=self.group, error=error)
                blocker = error.path
            except CancelledError:
                raise
            except CoordinationError as error:
                self._counter.add(errors=1)
                level = "warn" if self._backoff.failures else "debug"
                getattr(self._log, level)("group {group}: trying again after {error!r}", group=self.group, error=error)
            except Exception:
                self._counter.add(errors=1)
                self._log.failure("a bug in the membership of group {group}", group=self.group)
            else:
                self._backoff.reset()
                self._admission.refused = False
                if self._share.delivering:  # else the session was lost, and CONNECTED will follow
                    self._enter(Phase.STEADY)
                    self._settled.fire(None)
                continue
            self._wanted = True
            self._enter(Phase.WAITING)
            await self._wait(blocker)

    def _refuse(self, error: LogdError) -> None:
        """Tell the application that it may not be a member now, and log that once until it may."""
        self._counter.add(conflicts=1)
        if not self._admission.refused:
            self._admission.refused = True
            self._log.warn("{error}", error=error)
        self._share.refused(error)
        self._settled.fail(error)

    async def _commit(self) -> None:
        if self.phase is Phase.LEFT:
            raise ClientClosed(f"the consumer has left group {self.group!r}")
        lost = await self._share.commit()
        if lost:
            names = "; ".join(map(str, lost))
            raise PartitionLost(f"group {self.group!r}: not committed, since other consumers own them now: {names}")
        self._counter.add(commits=1)

    def _may_commit(self) -> bool:
        return self._share.delivering and self._coordination.state is SessionState.CONNECTED

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

    def _rebalancing(self) -> None:
        """Note that a rebalance stops the delivery: the share is to change."""
        self._enter(Phase.REBALANCING)
        self._counter.add(rebalances=1)

    def _session_is(self, state: SessionState) -> None:
        if state in (SessionState.LOST, SessionState.CLOSED):
            self._share.session_ended()
            self._enter(Phase.WAITING)
        elif state is SessionState.CONNECTED:
            self._backoff.reset()
            self._changed()

    def _cut_off(self) -> None:
        """Stop, since nothing was heard for too long and others may soon own the partitions. CONNECTED resumes."""
        self._counter.add(silences=1)
        self._log.warn(
            "group {group}: no contact with the coordination tree, so delivery stops until it answers", group=self.group
        )
        self._share.stop()
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

    def _end(self) -> Deferred[bool]:
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._commits.stop()
        self._background.stop()
        self._settled.fail(ClientClosed(f"the consumer has left group {self.group!r}"))
        ending = Deferred.fromCoroutine(self._share.hand_over()).addErrback(self._not_left)
        return fired_within(self._clock, self._timing.leave, ending)

    def _not_left(self, failure: Failure) -> None:
        error = failure.value
        tell = self._log.debug if self._left.happened else self._log.warn  # of a late one, leave has told
        tell(
            "group {group}: left without a handover; the claims end with the session: {error!r}",
            group=self.group,
            error=error,
        )

    def _bug(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("a bug in the membership of group {group}", failure, group=self.group)
