"""The role of a log whose broker leads the partition: takes messages, counts followers, keeps the in-sync set."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from logd.broker.replication.followers import FollowerListener, FollowerProgress, Followers
from logd.broker.replication.in_sync_set import InSyncSet, may_join
from logd.coord.errors import BadVersion, CoordinationError
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import NotEnoughReplicas, NotLeader, WireError
from logd.interfaces import Clock, IFlushListener
from logd.leadership import NO_LEADER, PartitionLeadership
from logd.log.epochs.history import EpochHistory
from logd.log.epochs.mark import MARK_BYTES, EpochMark, encode_epoch_mark
from logd.log.partition import PartitionLog
from logd.log.visibility.waiters import Wait

#: Seconds before a change of the in-sync set that may have failed is tried again.
RETRY_SECONDS = 0.5
#: Seconds for which a leader that is to hand over takes no messages. The controller does not wait so long.
HAND_SECONDS = 5.0

#: Changes the partition's state in the tree: ``(known, state)``. See PartitionStates.change.
ChangeState = Callable[[KnownState, PartitionState], Coroutine[Any, Any, KnownState]]
#: Lets one of some brokers lead in place of a role, within seconds. See ReplicaManager.give_way.
GiveWay = Callable[["LeaderRole", float, tuple[int, ...]], Coroutine[Any, Any, bool]]


@define(eq=False)
class LeaderRole:
    """A log that leads in ``epoch``. See ``logd.log.visibility.visible_log.ReplicaRole``."""

    _log = Logger()

    log: PartitionLog
    me: int
    epoch: int
    #: The position at which the epoch begins, None until its mark is appended.
    epoch_start: int | None = field(default=None, init=False)
    history: EpochHistory = field(init=False, factory=EpochHistory)
    _known: KnownState
    #: The brokers that are to store the partition, the preferred leader first.
    replicas: tuple[int, ...]
    _clock: Clock
    #: Writes a changed state; raises BadVersion and other CoordinationErrors.
    _change: ChangeState
    _in_sync_set: InSyncSet
    #: Called when the log cannot be served any more, or an append has found no room.
    _on_failure: Callable[[], None]
    #: The in-sync set that is being written, None if none is.
    _proposed: tuple[int, ...] | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)
    _changes: Background = field(factory=lambda: Background("changing an in-sync set"), init=False)
    #: The leaders here that have to look again though nothing may happen to them: see ``unsettled``.
    _looking: dict[LeaderRole, None]
    #: The number of those who are handing the leadership over: while there are any, nothing is taken.
    handing_over: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._unsettle()
        self._take_leadership()

    @property
    def followers(self) -> Followers:
        """The followers by broker."""
        return self._in_sync_set.followers

    @property
    def ended(self) -> bool:
        """True once the log does not lead in this epoch any more."""
        return self._ended

    @property
    def unsettled(self) -> bool:
        """False while time alone changes nothing: who is in sync has everything, and nobody who follows is to join.

        A replica that does not follow now is waited for without a look at the clock. A broker may be dead for days.
        """
        return self in self._looking

    def _unsettle(self) -> None:
        if not self._ended:
            self._looking[self] = None

    # ReplicaRole

    @property
    def refusal(self) -> WireError | None:
        """See ReplicaRole."""
        if self.epoch_start is None or self.handing_over:
            what = "is handing over" if self.handing_over else "is about to lead"
            return NotLeader(f"broker {self.me} {what} {self.log.topic}-{self.log.partition}: try again soon")
        return None

    @property
    def has_taken(self) -> bool:
        """True once anything but the mark was appended in this epoch."""
        return self.epoch_start is not None and self.log.end > self.epoch_start + MARK_BYTES

    @property
    def knows_visible_end(self) -> bool:
        """False until the visible end has reached the start of this epoch: readers may have seen more before."""
        return self.epoch_start is not None and self.log.visible_end >= self.epoch_start

    def appended(self) -> None:
        """See ReplicaRole."""
        if not self.unsettled:
            # Nobody has looked since all had everything, perhaps for long: until now nobody was behind.
            self._unsettle()
            now = self._clock.seconds()
            for follower in self.followers.values():
                follower.caught_up = now
        self.followers.grown()

    def flushed(self) -> None:
        """See ReplicaRole."""
        self._move_visible_end()

    def refused_full(self) -> None:
        """See ReplicaRole."""
        self._on_failure()

    def went_offline(self) -> None:
        """See ReplicaRole."""
        self._on_failure()

    def wait_copies(self, copies: int, position: int, listener: IFlushListener) -> Wait | None:
        """See ReplicaRole."""
        if self._ended:
            listener.failed(self._no_leader())
            return None
        return self.followers.copies.wait(copies, position, self.followers.ends(self.log.end), listener)

    def _no_leader(self) -> NotLeader:
        return NotLeader(f"broker {self.me} does not lead {self.log.topic}-{self.log.partition} now")

    def check_latest(self) -> None:
        """See ReplicaRole."""
        if not self.knows_visible_end:
            raise NotLeader(
                f"broker {self.me} has begun to lead {self.log.topic}-{self.log.partition}, and does not know its "
                "visible end yet: try again soon"
            )

    def check_produce(self, acks: int) -> None:
        """Raise NotEnoughReplicas if ``acks`` asks for copies, and the in-sync set is below min.insync.replicas."""
        least = self.log.settings.min_insync_replicas
        if acks not in (0, 1) and len(self.in_sync) < least:
            raise NotEnoughReplicas(
                f"{self.log.topic}-{self.log.partition} has {len(self.in_sync)} replicas in sync, and "
                f"min.insync.replicas = {least}"
            )

    # The state in the tree

    @property
    def in_sync(self) -> tuple[int, ...]:
        """The in-sync replicas, this broker included."""
        return self._known.state.in_sync

    @property
    def state(self) -> KnownState:
        """The state of the partition as last seen."""
        return self._known

    def take(self, known: KnownState, replicas: tuple[int, ...]) -> None:
        """Take a changed state of the same epoch."""
        self.replicas = replicas
        if known.version > self._known.version:
            # It may have been written for a log that is removed: see TopicComparison. A broker that is to store the
            # partition once more has less then than it has said, and its word about that may still be on the way.
            self.followers.forget_others(known.state.instances)
        self._take_known(known)
        self.look()

    def _take_known(self, known: KnownState) -> None:
        asked = self._proposed is not None and {*self._proposed} == {*known.state.in_sync}
        if known.version > self._known.version:
            self._proposed = None
        if known.version >= self._known.version and not self._ended:
            former, self._known = self._known.state, known
            if not asked:
                self._in_sync_set.note_left_out(former, known.state)
            self._in_sync_set.note_change(self.log, self.replicas, former, known.state, asked)
            self._unsettle()
            self._take_leadership()
            self._move_visible_end()

    def _take_leadership(self) -> None:
        self.log.leadership = PartitionLeadership(self.me, self.epoch, self.replicas, self.in_sync)

    # The beginning and the end

    def begin(self, history: EpochHistory) -> None:
        """Append the mark of the epoch, which ``history`` and the epoch file have at the log's end, and serve.

        Raises LogdError if the mark cannot be appended; the call can be repeated.
        """
        start = self.log.end
        self.history = history
        self.log.append([encode_epoch_mark(EpochMark(self.epoch, self.me))], 1, -1)
        # A leader that is elected again may have gathered messages for flush.messages and flush.ms. Until they are
        # flushed it does not know its visible end: nobody joins the in-sync set, and "latest" is refused.
        self.log.flush_soon()
        self.epoch_start = start
        self._in_sync_set.begin()
        self._move_visible_end()
        if self._known.state.last:
            self.look()  # nothing becomes visible before they are forgotten

    def end(self) -> None:
        """Stop leading: waits for the visible end fail, and followers are told."""
        self._ended = True
        self._looking.pop(self, None)
        self._changes.stop()
        self.log.visible_limit = self.log.visible_end
        self.log.fail_waiters(self._no_leader())
        self.followers.copies.fail(self._no_leader())
        self.appended()

    # Followers

    def may_follow(self, broker: int, instance: str) -> bool:
        """Return whether a broker is to store the partition, and is registered with this data directory."""
        return broker in self.replicas and not self._in_sync_set.is_replaced(broker, instance)

    def follow(self, broker: int, instance: str, session: FollowerListener) -> FollowerProgress:
        """Note that ``broker`` follows from now on, on a connection of its own; return what is known of it."""
        follower = self.followers.get(broker)
        if follower is None or follower.instance != instance:
            follower = self.followers[broker] = FollowerProgress(instance)
        if session not in follower.sessions:
            follower.sessions.append(session)
            follower.left = None
            self._unsettle()
        return follower

    def gone(self, broker: int, session: FollowerListener, *, left: bool) -> None:
        """Note that the connection of a follower is lost, or (``left``) that it follows no more by its own word."""
        follower = self.followers.get(broker)
        if follower is not None and session in follower.sessions:
            follower.sessions.remove(session)
            if left and not follower.sessions:
                follower.left = self._clock.seconds()
            self._unsettle()

    def fetched(self, follower: FollowerProgress, position: int, flushed: int) -> None:
        """Note the position from which a follower fetches, and what it has flushed."""
        follower.position = position
        self.followers.copies.moved(lambda: self.followers.ends(self.log.end))
        self.progressed(follower, flushed)

    def progressed(self, follower: FollowerProgress, flushed: int) -> None:
        """Note what a follower has flushed."""
        follower.progressed(flushed, self.log.end, self._clock.seconds())
        self._move_visible_end()
        if self.epoch_start is not None and may_join(follower, self._joining_end):
            self.look()

    def diverged(self, follower: FollowerProgress) -> None:
        """Note that a follower has to truncate its log or to begin again: what it had flushed counts no more."""
        follower.diverged()
        self._unsettle()

    def _move_visible_end(self) -> None:
        """Show what all in-sync replicas have flushed, while they are as many as min.insync.replicas demands.

        While the state remembers last members, any of them may be elected: so nothing that they lack is shown, also if
        min.insync.replicas was lowered meanwhile.
        """
        if self._ended or self._known.state.last or len(self.in_sync) < self.log.settings.min_insync_replicas:
            return
        members = {*self.in_sync, *(self._proposed or ())} - {self.me}
        ends = [self._flushed_by(member) for member in members]
        self.log.show_up_to(min(ends, default=self.log.flushed_end))
        self.followers.shown(self.log.visible_end)

    def _flushed_by(self, broker: int) -> int:
        """Return the flushed end that a follower has reported in this epoch; that it is the same one counts too."""
        follower = self.followers.get(broker)
        if follower is None or follower.instance != self._known.state.instances.get(broker, follower.instance):
            return 0
        return follower.flushed

    # The in-sync set

    def look(self) -> None:
        """Change the in-sync set if a member has fallen behind, or a follower has caught up."""
        if self._ended or self._proposed is not None or self.epoch_start is None or self.handing_over:
            return
        state, end, least = self._known.state, self.log.end, self.log.settings.min_insync_replicas
        joining: list[int] = []
        if self.knows_visible_end or len(state.in_sync) < least:
            joining = self._in_sync_set.joining(state, self.replicas, self._joining_end, end)
        wanted = tuple(sorted([*self._in_sync_set.staying(state, end), *joining]))
        forgets = bool(state.last) and len(wanted) >= least
        if wanted != tuple(sorted(state.in_sync)) or forgets:
            self._propose(wanted)
        elif not state.last and self._in_sync_set.is_settled(state, end):
            self._looking.pop(self, None)

    @property
    def _joining_end(self) -> int:
        """The position up to which a follower has to have flushed the log, so that it may join the in-sync set."""
        assert self.epoch_start is not None
        return max(self.log.visible_end, self.epoch_start)

    def _propose(self, wanted: tuple[int, ...]) -> None:
        known, least = self._known, self.log.settings.min_insync_replicas
        changed = self._in_sync_set.changed(known.state, wanted, least)
        self._proposed = wanted
        self._move_visible_end()  # from now on the new members count, also for what is flushed here in the next moment
        self._changes.start(self._write(known, changed))

    async def _write(self, former: KnownState, changed: PartitionState) -> None:
        """Write a changed in-sync set. It counts as proposed until it is known whether it was written."""
        while not self._ended and self._known.version == former.version:
            try:
                known = await self._change(former, changed)
            except BadVersion:
                return  # the watch brings the state that is there, which may be this one
            except CoordinationError as error:
                self._log.debug("the in-sync set cannot be changed now: {error}", error=str(error))
                await sleep(self._clock, RETRY_SECONDS)
            else:
                self._take_known(known)
                return

    @property
    def is_under_replicated(self) -> bool:
        """True while not all replicas are in sync."""
        return len(self.in_sync) < len(self.replicas)

    def has_everything(self, broker: int) -> bool:
        """Return whether a follower has the whole log, and could lead at once."""
        return self._in_sync_set.has_everything(broker, self.log.end)

    def hand_to_successor(self, give_way: GiveWay) -> None:
        """Let the successor lead that the controller has named, if there is one, once it has everything."""
        successor = self._known.state.successor
        if successor == NO_LEADER or self.handing_over or self._ended:
            return

        async def hand() -> None:
            await give_way(self, HAND_SECONDS, (successor,))

        self._changes.start(hand())
