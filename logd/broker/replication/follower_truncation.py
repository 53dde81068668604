"""The changes of a follower's log that its leader makes necessary: truncation, another epoch, another beginning."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from attrs import define
from twisted.logger import Logger

from logd.broker.replication.epoch_cache import EpochCache
from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.replica_owner import ReplicaOwner
from logd.coord.elections import renounced
from logd.coord.errors import CoordinationError
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState
from logd.deferreds.background import Background
from logd.deferreds.callbacks import called_back
from logd.deferreds.sleeping import sleep
from logd.deferreds.threads import on_thread
from logd.errors import LogdError
from logd.log.disk.errors import is_shortage
from logd.log.index.lookup import find_boundary
from logd.log.offline_text import not_restarted, not_truncated
from logd.log.partition import PartitionLog
from logd.log.store.truncation import TruncationRefused

#: Seconds before a log whose truncation is refused is looked at again.
REFUSED_SECONDS = 1.0
#: Seconds for which a log is offline whose truncation has found no room or the like, or that could not begin again,
#: before that is tried again.
SHORTAGE_SECONDS = 5.0


@define(eq=False)
class FollowerTruncation:
    """The changes of one follower's log. Its replica makes one at a time, and it is not fetched for meanwhile.

    Each raises LogdError and OSError; the leader is asked again then.
    """

    _log = Logger()

    _owner: ReplicaOwner
    _epochs: EpochCache
    #: Changes the partition's state in the tree; returns whether it was changed. See Replica.
    _change: Callable[[KnownState, PartitionState], Coroutine[Any, Any, bool]]
    #: The work of the replica, which ends with it.
    _work: Background

    async def truncate(self, position: int, role: FollowerRole) -> None:
        """Cut the log at ``position``, where it and its leader's diverge."""
        log = role.log
        self._log.info(
            "{topic}-{partition} is truncated from {end} to {position}, where it and its leader diverge",
            topic=log.topic,
            partition=log.partition,
            end=log.end,
            position=position,
        )
        if position < log.start:
            await self.restart(position, role)
            return
        # The end of an epoch that this log does not have is no boundary here if an entry of another epoch lies across
        # it: that entry is not the leader's, and goes as a whole. Then the leader is asked again.
        snapshot = log.snapshot(log.end)
        wanted = position
        position = await on_thread(self._owner.threads, lambda: find_boundary(snapshot, wanted))
        given_up, lost = self._is_given_up(role), log.visible_end - position
        try:
            if given_up or lost <= 0:  # otherwise nothing is cut off
                await self._lower_stored_end(log, position)
            await called_back(partial(self._owner.store.truncate, log, position, 0, given_up=given_up))
            await self._lower_stored_end(log, position)  # it may have been written meanwhile
        except TruncationRefused as error:
            role.trouble = (
                f"{error}. To have it copied anew from broker {role.leader}, stop broker {role.me}, "
                f"remove {log.folder}, and start it again"
            )
            await sleep(self._owner.clock, REFUSED_SECONDS)
            raise TruncationRefused(role.trouble) from error
        except OSError as error:
            if is_shortage(error) and log.offline is not None and log.offline.__cause__ is error:
                self._work.start(self._serve_again(log, position, role.tasks.went_offline))
            raise
        if lost > 0:
            self._log.warn(
                "{topic}-{partition} has lost {count} bytes that readers saw: a person let broker {leader} lead",
                topic=log.topic,
                partition=log.partition,
                count=lost,
                leader=role.leader,
            )
        await self._epochs.write(log, self._epochs.known.cut(position))

    async def _serve_again(self, log: PartitionLog, position: int, look: Callable[[], None]) -> None:
        """Serve a log whose cut has failed, as after a start, once room, files or memory are there.

        Its leader is asked again then. Meanwhile the log is like any other that is offline: another broker may have to
        lead, for example.
        """
        reason, store = log.offline, self._owner.store
        while True:
            await sleep(self._owner.clock, SHORTAGE_SECONDS)
            if log.offline is not reason or store.log(log.topic, log.partition) is not log:
                look()  # if it has lost bytes, it begins again
                return
            try:
                await called_back(partial(store.reopen, log, lambda: True))
            except LogdError:
                continue  # it has lost bytes, which is its reason now; or another request is at work on it
            except OSError as error:
                if not is_shortage(error):
                    log.stay_offline(not_truncated(log.folder, position, error))
                    self._log.error("{error}", error=str(log.offline))

    def _is_given_up(self, role: FollowerRole) -> bool:
        """Return whether a person has let a replica lead, after the last epoch of this log, that may lack of it."""
        known, _ = self._owner.known(*role.place)
        return (
            known is not None
            and (known.uuid, known.state.leader_epoch) == (role.uuid, role.epoch)
            and known.state.unclean_epoch > self._epochs.known.before(role.log.end)
            and not known.state.counts_on(role.me, self._owner.store.instance)
        )

    async def _lower_stored_end(self, log: PartitionLog, position: int) -> None:
        """Have the tree vouch for no more than that: a start that finds less would take the log for a lost one."""
        try:
            await self._owner.lower_stored_end(log.topic, log.partition, position)
        except CoordinationError as error:
            raise LogdError(f"the stored end in the tree cannot be lowered now: {error}") from error

    async def begin_epoch(self, epoch: int, start: int, role: FollowerRole) -> None:
        """Have the epoch file say that an epoch begins at ``start``, before bytes of it are appended there."""
        if role.log.end == start:
            await self._epochs.write(role.log, self._epochs.known.followed_by(epoch, start))

    async def restart(self, position: int, role: FollowerRole) -> None:
        """Begin again at ``position``, unless others count on what is here. The leader does not: it has said so."""
        log = role.log
        known, _ = self._owner.known(*role.place)
        if known is None or (known.uuid, known.state.leader_epoch) != (role.uuid, role.epoch):
            return  # another leader has not said what it counts on
        state = known.state
        if state.counts_on(role.me, self._owner.store.instance):
            # It would be elected though it lacks messages. The leader takes it out of the set, as it does not catch up;
            # among the last members it would stay for ever, while the set waits for it to be large enough.
            counts_no_more = renounced(state, role.me)
            if counts_no_more is None:
                role.trouble = "it has to begin again, and waits until it does not count as in sync any more"
                raise LogdError(role.trouble)
            state = counts_no_more
        await self._outdate_changes(known, state)
        if role.is_lost:
            self._log.warn(
                "{topic}-{partition} is copied anew from broker {leader}",
                topic=log.topic,
                partition=log.partition,
                leader=role.leader,
            )
            await self._relinquish(log)
        else:
            self._log.info(
                "{topic}-{partition} begins again at {position}, where its leader's log begins; it ended at {end}",
                topic=log.topic,
                partition=log.partition,
                position=position,
                end=log.end,
            )
        await self._lower_stored_end(log, position)
        if role.log is not log:
            return  # it was served again meanwhile
        try:
            await called_back(partial(self._owner.store.restart, log, position))
        except (LogdError, OSError) as error:
            log.stay_offline(not_restarted(log.folder, position, error))  # so that the next leader is asked, too
            await sleep(self._owner.clock, SHORTAGE_SECONDS)  # each attempt writes the partition's state in the tree
            raise
        self._epochs.log_emptied()
        role.is_lost = False
        await self._lower_stored_end(log, position)  # as for truncate

    async def _outdate_changes(self, known: KnownState, state: PartitionState) -> None:
        """Write a state that does not count on this replica, so that the changes of it that are under way fail.

        One of them may be the leader's, which wanted to add this replica for what that had flushed before; it names
        the former version. Reading the state would not do, as the change may still be on its way to the tree. So it is
        written again even where nothing in it changes.
        """
        if not await self._change(known, state):
            raise LogdError("it has to begin again, and the partition's state has changed meanwhile")

    async def _relinquish(self, log: PartitionLog) -> None:
        """Have the tree vouch for nothing of a lost log that is to begin again."""
        try:
            await self._owner.relinquish(log.topic, log.partition)
        except CoordinationError as error:
            raise LogdError(f"the stored end in the tree cannot be lowered now: {error}") from error

    def delete_before(self, log: PartitionLog, position: int) -> None:
        """Delete the records before ``position``, where the leader's log begins now."""

        def done(error: BaseException | None) -> None:
            if error is not None:
                self._log.debug("the beginning of a replica is not deleted yet: {error}", error=str(error))

        self._owner.store.delete_before(log, position, done)
