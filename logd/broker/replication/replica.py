"""One replica on this broker: gives its log the role that the partition's state says, one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from logd.broker.replication.epoch_cache import EpochCache
from logd.broker.replication.follower import FollowerRole, FollowerTasks
from logd.broker.replication.follower_truncation import FollowerTruncation
from logd.broker.replication.giving_way import GivingWay
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_owner import IdleRole, ReplicaOwner
from logd.coord.elections import handed_over
from logd.coord.errors import BadVersion, CoordinationError, NoNode
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.leadership import NO_LEADER, PartitionLeadership
from logd.log.epochs.history import NO_EPOCH, EpochHistory
from logd.log.offline_text import NotRestarted
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_segments import BytesLost

#: Seconds before a change of the role that failed is tried again.
RETRY_SECONDS = 1.0
#: Seconds before the same reason for that is logged again.
WARN_SECONDS = 60.0


@define(eq=False)
class Replica:
    """A log of a replicated partition on this broker, and its role."""

    _log = Logger()

    log: PartitionLog
    _owner: ReplicaOwner
    role: LeaderRole | FollowerRole | None = field(default=None, init=False)
    _epochs: EpochCache = field(init=False)
    _work: Background = field(factory=lambda: Background("changing the role of a replica"), init=False)
    _busy: bool = field(default=False, init=False)
    #: Things to do before the role is looked at again.
    _steps: list[Callable[[], Coroutine[Any, Any, None]]] = field(factory=list, init=False)
    #: The follower of which a step is waiting, or under way.
    _at_work: FollowerRole | None = field(default=None, init=False)
    _again: bool = field(default=False, init=False)
    _stopped: bool = field(default=False, init=False)
    #: The reason for which a change has failed, as logged last, and the time from which it is logged again.
    _warned_of: str = field(default="", init=False)
    _warns_again: float = field(default=0.0, init=False)
    _giving_way: GivingWay = field(init=False)
    _truncation: FollowerTruncation = field(init=False)

    def __attrs_post_init__(self) -> None:
        owner = self._owner
        self.log.replica = IdleRole(self.log, self._me)
        self._epochs = EpochCache(owner.store.files, owner.threads)
        self._giving_way = GivingWay(owner, self._change)
        self._truncation = FollowerTruncation(owner, self._epochs, self._change, self._work)

    @property
    def _me(self) -> int:
        return self._owner.store.broker_id

    @property
    def history(self) -> EpochHistory | None:
        """The epochs of the log, None until they are read."""
        return self._epochs.history

    def bind(self, log: PartitionLog) -> None:
        """Take the log that replaces the former one: it was truncated, or is served again."""
        self.log = log
        role = self.role
        if isinstance(role, FollowerRole):
            role.log = log
            log.replica = role
        else:
            self._end_role()
            log.replica = IdleRole(log, self._me)
        if self._busy:
            self._again = True
        else:
            self._epochs.log_changed()
            self.look()

    def look(self) -> None:
        """Compare the role with the partition's state, and change it if they differ."""
        self._again = True
        if not self._busy and not self._stopped:
            self._busy = True
            self._work.start(self._run())

    def stop(self) -> None:
        """End the role; the log is closed or deleted."""
        self._stopped = True
        self._work.stop()
        self._end_role()

    async def _run(self) -> None:
        try:
            while (self._again or self._steps) and not self._stopped:
                try:
                    if self._steps:
                        await self._steps.pop(0)()
                    else:
                        self._again = False
                        await self._settle()
                except (LogdError, OSError) as error:
                    self._warn(str(error))
                    await sleep(self._owner.clock, RETRY_SECONDS)
                    self._again = True
        finally:
            self._busy = False

    def _warn(self, reason: str) -> None:
        """Log why the role cannot be taken; the same reason not at each attempt, as a full disk may last for long."""
        now = self._owner.clock.seconds()
        if reason != self._warned_of or now >= self._warns_again:
            self._warned_of, self._warns_again = reason, now + WARN_SECONDS
            self._log.warn(
                "{topic}-{partition} cannot take its role in replication yet: {error}",
                topic=self.log.topic,
                partition=self.log.partition,
                error=reason,
            )

    async def _settle(self) -> None:
        log = self.log
        known, replicas = self._owner.known(log.topic, log.partition)
        if known is None or self._me not in replicas:
            self._end_role()
            return
        state = known.state
        if log.offline is not None:
            await self._leave_offline(known, replicas)
            return
        self._giving_way.served()
        if not self._epochs.is_read:
            await self._epochs.read(log, self._state_epoch)
            self._again = True  # the log may have gone offline meanwhile, as it was compared, or the state have changed
            return
        role, has_role = self.role, self._has_role_of(known)
        if not has_role and not self._owner.is_compared(log.topic, known.uuid):
            # The log may be found to be lost. Until then nobody may follow it, or count on it as a follower.
            self._end_role()
        elif state.leads(self._me, self._instance):
            if has_role and isinstance(role, LeaderRole):
                role.take(known, replicas)
                if role.epoch_start is None:  # the epoch file or the mark could not be written, as on a full disk
                    await self._try_to_begin(role, known, replicas)
                elif self._giving_way.is_due(role):
                    self._work.start(self._giving_way.full(role))
                else:
                    role.hand_to_successor(self._owner.give_way)
            else:
                await self._lead(known, replicas)
        elif state.leader in (NO_LEADER, self._me):
            self._end_role()
        elif not has_role:
            self._follow(known, replicas, self._epochs.known)

    def _has_role_of(self, known: KnownState) -> bool:
        """Return whether the role is that of a state, and of a lost log if the log is offline."""
        role, state = self.role, known.state
        if isinstance(role, FollowerRole):
            is_lost = self.log.offline is not None
            return (role.epoch, role.leader, role.is_lost) == (state.leader_epoch, state.leader, is_lost)
        if role is None or role.epoch != state.leader_epoch or role.state.version > known.version:
            return False  # or an earlier tree is back, where nothing that this leader writes would fit
        return state.leads(self._me, self._instance)

    # Roles

    def _end_role(self) -> None:
        role, self.role = self.role, None
        if role is not None:
            self._owner.on_role(self.log)
        if isinstance(role, FollowerRole):
            self._owner.fetcher(role.leader).remove(role)
        if role is not None:
            role.end()
            self.log.replica = IdleRole(self.log, self._me)

    async def _lead(self, known: KnownState, replicas: tuple[int, ...]) -> None:
        self._end_role()
        log = self.log
        epoch = known.state.leader_epoch
        if self._epochs.highest >= epoch:
            # An earlier life led in this epoch, and followers may have entries of it that were not flushed here.
            await self._change(known, handed_over(known.state, self._me, self._epochs.highest + 1))
            return
        role = self._owner.lead(log, known, replicas, self.look)
        self.role, log.replica = role, role
        await self._try_to_begin(role, known, replicas)

    async def _try_to_begin(self, role: LeaderRole, known: KnownState, replicas: tuple[int, ...]) -> None:
        try:
            await self._begin(role)
        except (LogdError, OSError) as error:
            if not await self._giving_way.not_begun(self.log, known, replicas, str(error)):
                raise

    async def _begin(self, role: LeaderRole) -> None:
        """Write the epoch file, and begin to lead. Raises LogdError and OSError; the call can be repeated."""
        log = self.log
        begun = self._epochs.known.begun(role.epoch, log.end)
        await self._epochs.write(log, begun)
        if self.role is role and self.log is log:
            self._owner.on_role(log)
            role.begin(begun)
            self._owner.begun(log)
            self._log.info(
                "{topic}-{partition} leads in epoch {epoch} from {start} on",
                topic=log.topic,
                partition=log.partition,
                epoch=role.epoch,
                start=role.epoch_start,
            )

    def _follow(
        self, known: KnownState, replicas: tuple[int, ...], history: EpochHistory, *, is_lost: bool = False
    ) -> None:
        self._end_role()
        log, state = self.log, known.state
        log.leadership = PartitionLeadership(state.leader, state.leader_epoch, replicas, state.in_sync)
        fetcher = self._owner.fetcher(state.leader)
        role = FollowerRole(
            log,
            self._me,
            state.leader,
            known.uuid,
            state.leader_epoch,
            history,
            self._follower_tasks(),
            fetcher.tell,
            is_lost,
        )
        self.role, log.replica = role, role
        fetcher.add(role)

    def _follower_tasks(self) -> FollowerTasks:
        truncation = self._truncation
        return FollowerTasks(
            lambda position: self._do(partial(truncation.truncate, position)),
            lambda epoch, start: self._do(partial(truncation.begin_epoch, epoch, start)),
            lambda position: self._do(partial(truncation.restart, position)),
            lambda position: truncation.delete_before(self.log, position),
            lambda: self._epochs.is_written,
            self.look,
        )

    async def _leave_offline(self, known: KnownState, replicas: tuple[int, ...]) -> None:
        """Give up leading a log that cannot be served, so that another replica with all messages leads.

        If the log is lost, and the state does not count on it, it begins again once its leader does not either.
        """
        if known.state.leads(self._me, self._instance):
            self._end_role()
            await self._giving_way.offline(self.log, known)
        elif self._has_role_of(known):
            pass  # its leader is asked already
        elif self._is_to_begin_again(known):
            self._follow(known, replicas, EpochHistory(), is_lost=True)
        else:
            self._end_role()

    def _is_to_begin_again(self, known: KnownState) -> bool:
        log, state = self.log, known.state
        return (
            state.leader not in (NO_LEADER, self._me)
            and not state.counts_on(self._me, self._instance)
            and self._owner.is_compared(log.topic, known.uuid)
            and (isinstance(log.offline, BytesLost | NotRestarted) or self._owner.is_lost(log.topic, log.partition))
        )

    @property
    def _instance(self) -> str:
        return self._owner.store.instance

    def _state_epoch(self) -> int:
        known, _ = self._owner.known(self.log.topic, self.log.partition)
        return NO_EPOCH if known is None else known.state.leader_epoch

    async def _change(self, known: KnownState, changed: PartitionState) -> bool:
        """Change the partition's state in the tree, and look at the role again; return whether it was changed."""
        try:
            await self._owner.change_state(self.log.topic, self.log.partition, known, changed)
        except (BadVersion, NoNode):
            return False  # the controller has changed it, or the topic is deleted: its watch brings that
        except CoordinationError as error:
            raise LogdError(f"the partition's state cannot be changed: {error}") from error
        self._again = True
        return True

    # Work of a follower, one step at a time

    def _do(self, step: Callable[[FollowerRole], Coroutine[Any, Any, None]]) -> None:
        role = self.role
        assert isinstance(role, FollowerRole)
        if self._at_work is role:
            return  # the leader was asked again meanwhile: its answer is about the log as it was before the step
        self._at_work = role

        async def work() -> None:
            if self.role is not role:
                return
            try:
                await step(role)
            finally:
                self._at_work = None
                if self.role is role and not self._stopped:
                    role.history = self.history or EpochHistory()
                    self._owner.clock.callLater(0, self._fetch_on, role)

        self._steps.append(work)
        if not self._busy and not self._stopped:
            self._busy = True
            self._work.start(self._run())

    def _fetch_on(self, role: FollowerRole) -> None:
        if self.role is role and not self._stopped:
            self._owner.fetcher(role.leader).add(role)
