"""One replica on this broker: gives its log the role that the partition's state says, one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_owner import IdleRole, ReplicaOwner
from logd.coord.elections import handed_over, renounced
from logd.coord.errors import BadVersion, CoordinationError, NoNode
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState
from logd.deferreds.background import Background
from logd.deferreds.callbacks import called_back
from logd.deferreds.sleeping import sleep
from logd.deferreds.threads import on_thread
from logd.errors import LogdError
from logd.leadership import NO_LEADER, PartitionLeadership
from logd.log.epochs.epoch_file import read_epochs, write_epochs
from logd.log.epochs.history import NO_EPOCH, EpochHistory
from logd.log.epochs.search import recover_epochs
from logd.log.index.lookup import find_boundary
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_segments import BytesLost
from logd.log.store.truncation import TruncationRefused

if TYPE_CHECKING:
    from logd.broker.replication.giving_way import GivingWay

#: Seconds before a change of the role that failed is tried again.
RETRY_SECONDS = 1.0


@define(eq=False)
class Replica:
    """A log of a replicated partition on this broker, and its role."""

    _log = Logger()

    log: PartitionLog
    _owner: ReplicaOwner
    role: LeaderRole | FollowerRole | None = field(default=None, init=False)
    #: The epochs of the log, None until they are read.
    history: EpochHistory | None = field(default=None, init=False)
    #: The latest epoch that the epoch file ever named: perhaps one of which the log has no entry.
    _highest_epoch: int = field(default=NO_EPOCH, init=False)
    _work: Background = field(factory=lambda: Background("changing the role of a replica"), init=False)
    _busy: bool = field(default=False, init=False)
    #: Things to do before the role is looked at again.
    _steps: list[Callable[[], Coroutine[Any, Any, None]]] = field(factory=list, init=False)
    _again: bool = field(default=False, init=False)
    _stopped: bool = field(default=False, init=False)
    _giving_way: GivingWay = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.log.replica = IdleRole(self.log, self._me)
        from logd.broker.replication.giving_way import GivingWay  # most brokers have no replicated topics

        self._giving_way = GivingWay(self._owner, self._change)

    @property
    def _me(self) -> int:
        return self._owner.store.broker_id

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
        if not self._busy:
            self.history = None  # as at a start
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
                    self._log.warn(
                        "{topic}-{partition} cannot take its role in replication yet: {error}",
                        topic=self.log.topic,
                        partition=self.log.partition,
                        error=str(error),
                    )
                    await sleep(self._owner.clock, RETRY_SECONDS)
                    self._again = True
        finally:
            self._busy = False

    async def _settle(self) -> None:
        log = self.log
        known, replicas = self._owner.known(log.topic, log.partition)
        if known is None or self._me not in replicas:
            self._end_role()
            return
        state = known.state
        if log.offline is not None:
            await self._leave_offline(known)
            return
        self._giving_way.served()
        if self.history is None:
            self.history = await self._read_history()
        role = self.role
        if state.leads(self._me, self._owner.store.instance):
            if isinstance(role, LeaderRole) and role.epoch == state.leader_epoch:
                role.take(known, replicas)
                if role.epoch_start is None:  # the epoch file or the mark could not be written, as on a full disk
                    await self._try_to_begin(role, known, replicas)
                elif self._giving_way.is_due(role):
                    self._work.start(self._giving_way.full(role))
            else:
                await self._lead(known, replicas)
        elif state.leader in (NO_LEADER, self._me):
            self._end_role()
        elif isinstance(role, FollowerRole) and (role.epoch, role.leader) == (state.leader_epoch, state.leader):
            pass
        else:
            self._follow(known, replicas)

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
        if self._highest_epoch >= epoch:
            # An earlier life led in this epoch, and followers may have entries of it that were not flushed here.
            await self._change(known, handed_over(known.state, self._me, self._highest_epoch + 1))
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
        log, history = self.log, self.history
        assert history is not None
        begun = history.begun(role.epoch, log.end)
        await self._write_history(begun)
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

    def _follow(self, known: KnownState, replicas: tuple[int, ...]) -> None:
        self._end_role()
        log, state = self.log, known.state
        assert self.history is not None
        log.leadership = PartitionLeadership(state.leader, state.leader_epoch, replicas, state.in_sync)
        fetcher = self._owner.fetcher(state.leader)
        role = FollowerRole(
            log,
            self._me,
            state.leader,
            known.uuid,
            state.leader_epoch,
            self.history,
            lambda position: self._do(partial(self._truncate, position)),
            lambda epoch, start: self._do(partial(self._begin_epoch, epoch, start)),
            lambda position: self._do(partial(self._restart, position)),
            fetcher.tell,
            self._delete_before,
        )
        self.role, log.replica = role, role
        fetcher.add(role)

    async def _leave_offline(self, known: KnownState) -> None:
        """Give up leading a log that cannot be served, so that another replica with all messages leads."""
        self._end_role()
        log, state = self.log, known.state
        if state.leads(self._me, self._instance):
            await self._giving_way.offline(log, known)
        elif (
            state.leader not in (NO_LEADER, self._me)
            and not state.counts_on(self._me, self._instance)
            and (await self._owner.relinquish(log.topic, log.partition) or isinstance(log.offline, BytesLost))
        ):
            self._log.warn(
                "{topic}-{partition} is copied anew from broker {leader}",
                topic=log.topic,
                partition=log.partition,
                leader=state.leader,
            )
            await self._drop(0)

    @property
    def _instance(self) -> str:
        return self._owner.store.instance

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

        async def work() -> None:
            if self.role is not role:
                return
            try:
                await step(role)
            finally:
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

    async def _truncate(self, position: int, role: FollowerRole) -> None:
        log = self.log
        self._log.info(
            "{topic}-{partition} is truncated from {end} to {position}, where it and its leader diverge",
            topic=log.topic,
            partition=log.partition,
            end=log.end,
            position=position,
        )
        if position < log.start:
            await self._restart(position, role)
            return
        assert self.history is not None
        # The end of an epoch that this log does not have is no boundary here if an entry of another epoch lies across
        # it: that entry is not the leader's, and goes as a whole. Then the leader is asked again.
        snapshot = log.snapshot(log.end)
        wanted = position
        position = await self._on_thread(lambda: find_boundary(snapshot, wanted))
        given_up, lost = self._is_given_up(role), log.visible_end - position
        try:
            if given_up or lost <= 0:  # otherwise nothing is cut off
                await self._lower_stored_end(position)
            await called_back(partial(self._owner.store.truncate, log, position, 0, given_up=given_up))
            await self._lower_stored_end(position)  # it may have been written meanwhile
        except TruncationRefused as error:
            role.trouble = (
                f"{error}. To have it copied anew from broker {role.leader}, stop broker {self._me}, "
                f"remove {log.folder}, and start it again"
            )
            await sleep(self._owner.clock, RETRY_SECONDS)
            raise TruncationRefused(role.trouble) from error
        if lost > 0:
            self._log.warn(
                "{topic}-{partition} has lost {count} bytes that readers saw: a person let broker {leader} lead",
                topic=log.topic,
                partition=log.partition,
                count=lost,
                leader=role.leader,
            )
        await self._write_history(self.history.cut(position))

    def _is_given_up(self, role: FollowerRole) -> bool:
        """Return whether a person has let a replica lead, after the last epoch of this log, that may lack of it."""
        known, _ = self._owner.known(self.log.topic, self.log.partition)
        assert self.history is not None
        return (
            known is not None
            and (known.uuid, known.state.leader_epoch) == (role.uuid, role.epoch)
            and known.state.unclean_epoch > self.history.before(self.log.end)
            and not known.state.counts_on(self._me, self._instance)
        )

    async def _lower_stored_end(self, position: int) -> None:
        """Have the tree vouch for no more than that: a start that finds less would take the log for a lost one."""
        try:
            await self._owner.lower_stored_end(self.log.topic, self.log.partition, position)
        except CoordinationError as error:
            raise LogdError(f"the stored end in the tree cannot be lowered now: {error}") from error

    async def _begin_epoch(self, epoch: int, start: int, role: FollowerRole) -> None:
        assert self.history is not None
        if self.log.end == start:
            await self._write_history(self.history.followed_by(epoch, start))

    async def _restart(self, position: int, role: FollowerRole) -> None:
        log = self.log
        known, _ = self._owner.known(log.topic, log.partition)
        if known is not None and known.state.counts_on(self._me, self._instance):
            # It would be elected though it lacks messages. The leader takes it out of the set, as it does not catch up;
            # among the last members it would stay for ever, while the set waits for it to be large enough.
            counts_no_more = renounced(known.state, self._me)
            if counts_no_more is not None and known.state.leader_epoch == role.epoch:
                await self._change(known, counts_no_more)
            role.trouble = "it has to begin again, and waits until it does not count as in sync any more"
            raise LogdError(role.trouble)
        self._log.info(
            "{topic}-{partition} begins again at {position}, where its leader's log begins; it ended at {end}",
            topic=log.topic,
            partition=log.partition,
            position=position,
            end=log.end,
        )
        await self._drop(position)

    async def _drop(self, position: int) -> None:
        await called_back(partial(self._owner.store.restart, self.log, position))
        self.history = EpochHistory()
        self._again = True

    def _delete_before(self, position: int) -> None:
        def done(error: BaseException | None) -> None:
            if error is not None:
                self._log.debug("the beginning of a replica is not deleted yet: {error}", error=str(error))

        self._owner.store.delete_before(self.log, position, done)

    # The epoch file

    async def _read_history(self) -> EpochHistory:
        log, files = self.log, self._owner.store.files
        try:
            found: EpochHistory = await self._on_thread(lambda: read_epochs(files, log.folder))
            self._highest_epoch = max(self._highest_epoch, found.latest)
            return found  # with an epoch behind the log's end: the file goes on to name it until others come there
        except ValueError:
            self._log.error("the epoch file in {folder} is damaged; it is made again from the log", folder=log.folder)
        history: EpochHistory = await self._on_thread(lambda: recover_epochs(files, log.snapshot(log.end)))
        if (known := self._owner.known(log.topic, log.partition)[0]) is not None:  # its mark may be deleted
            self._highest_epoch = max(self._highest_epoch, known.state.leader_epoch)
        await self._write_history(history)
        return history

    async def _write_history(self, history: EpochHistory) -> None:
        files, folder = self._owner.store.files, self.log.folder
        self._highest_epoch = max(self._highest_epoch, history.latest)
        await self._on_thread(lambda: write_epochs(files, folder, history))
        self.history = history

    def _on_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        return on_thread(self._owner.threads, work)
