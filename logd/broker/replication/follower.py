"""The role of a log whose partition another broker leads: it copies the leader's log byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.logger import Logger

from logd.errors import LogdError, NotLeader, OffsetOutOfRange, WireError
from logd.interfaces import IFlushListener
from logd.leadership import NO_LEADER
from logd.log.epochs.history import NO_EPOCH, EpochHistory
from logd.log.partition import PartitionLog
from logd.protocol import loops
from logd.protocol.requests.replica_fetch import FlushedPart, ReplicaFetchedPart, ReplicaPart

#: The position that a follower names whose log is lost: before every log, so that the leader counts on nothing there.
NOTHING_HERE = -1
#: The most bytes that are asked for so that less of an entry is sent twice; an entry that does not fit needs more.
MOST_WANTED_BYTES = 4 << 20


@frozen
class FollowerTasks:
    """The part of a replica that does for a follower what takes time, one task at a time: see FollowerTruncation."""

    #: Truncates the log to a position, or begins an epoch before bytes of it are appended.
    truncate: Callable[[int], None]
    begin_epoch: Callable[[int, int], None]
    restart: Callable[[int], None]
    #: Deletes the records before a position, where the leader's log begins.
    delete_before: Callable[[int], None]
    #: Returns whether the epoch file has the follower's history for sure.
    is_written: Callable[[], bool]
    #: Called when the log cannot be served any more: the replica ends the role then, and the leader is told.
    went_offline: Callable[[], None]


@define(eq=False)
class FollowerRole:
    """A log that follows ``leader`` in ``epoch``. See ``logd.log.visibility.visible_log.ReplicaRole``.

    What takes time (truncation, the epoch file) is done by the replica; the fetcher leaves the partition out meanwhile.
    """

    _log = Logger()

    log: PartitionLog
    me: int
    leader: int
    #: The uuid of the topic.
    uuid: str
    epoch: int
    history: EpochHistory
    tasks: FollowerTasks
    #: Has the flushed end told to the leader.
    _tell: Callable[[FollowerRole], None]
    #: True for a log that is lost, until it has begun again. The leader may count on what was there, so it is told
    #: first that nothing is; until it has answered the files are left alone.
    is_lost: bool = False
    #: The reason why the partition does not follow at the moment, as logged.
    trouble: str = field(default="", init=False)
    #: The bytes that the next fetch is to bring at least: more where entries do not fit well.
    wanted_bytes: int = field(default=0, init=False)
    #: Bytes that are checked, and about to be written.
    ahead: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)

    # ReplicaRole

    @property
    def refusal(self) -> WireError | None:
        """See ReplicaRole."""
        where = f"broker {self.leader} leads it" if self.leader != NO_LEADER else "no broker leads it now"
        return NotLeader(f"broker {self.me} does not lead {self.log.topic}-{self.log.partition}: {where}")

    def check_produce(self, acks: int) -> None:
        """See ReplicaRole. Nothing is produced to a follower."""

    def wait_copies(self, copies: int, position: int, listener: IFlushListener) -> None:
        """See ReplicaRole. Nothing is produced to a follower."""
        listener.failed(NotLeader(f"broker {self.me} does not lead {self.log.topic}-{self.log.partition} now"))

    def check_latest(self) -> None:
        """See ReplicaRole. Nothing is asked of a follower."""

    def appended(self) -> None:
        """See ReplicaRole."""

    def flushed(self) -> None:
        """See ReplicaRole."""
        if not self._ended:
            self._tell(self)

    def refused_full(self) -> None:
        """See ReplicaRole. The leader takes this replica out of the in-sync set once it has fallen behind."""

    def went_offline(self) -> None:
        """See ReplicaRole. The leader takes this replica out of the in-sync set, so that producers need not wait."""
        if not self._ended:
            self.tasks.went_offline()

    def end(self) -> None:
        """Stop following."""
        self._ended = True
        self.log.visible_limit = self.log.visible_end

    # The fetcher

    @property
    def place(self) -> tuple[str, int]:
        """The topic and the partition."""
        return self.log.topic, self.log.partition

    @property
    def _position(self) -> int:
        return NOTHING_HERE if self.is_lost else self.log.end

    def part(self) -> ReplicaPart:
        """Return what a fetch says of this partition."""
        log, position = self.log, self._position + self.ahead
        if self.is_lost:
            return ReplicaPart(log.topic, log.partition, self.epoch, position, NO_EPOCH, 0, self.uuid)
        last_epoch = self.history.before(position)
        return ReplicaPart(log.topic, log.partition, self.epoch, position, last_epoch, log.flushed_end, self.uuid)

    def progress(self) -> FlushedPart:
        """Return what the leader is told once bytes are flushed."""
        return FlushedPart(self.log.topic, self.log.partition, self.epoch, self.log.flushed_end)

    def take(self, part: ReplicaFetchedPart, ahead: Callable[[], None] = lambda: None) -> bool:
        """Take an answer of the leader; return whether the partition is to be fetched on with its new position.

        False: the replica is at work on it, and has it fetched again afterwards. If readers see the bytes already,
        ``ahead()`` is called once they are checked, before they are written: ``part`` names the position behind them
        then, so that the leader sends while this broker writes. If they cannot be written, what comes is about another
        position, and not taken.
        """
        log = self.log
        if self._ended or part.leader_epoch != self.epoch or part.position != self._position:
            return False  # about another leadership, or a position that is named no more
        if part.error == OffsetOutOfRange.code:
            if part.log_start <= log.end and not self.is_lost:
                return self._refuse(f"the leader's log begins at {part.log_start}, and has no {log.end}")
            self.tasks.restart(part.log_start)
            return False
        if part.error or self.is_lost or log.offline is not None:
            return False
        if part.epoch_end >= 0:
            own = self.history.end_of(part.epoch, log.end)
            self.tasks.truncate(min(part.epoch_end, own.end))
            return False
        size = len(part.message_set)
        if size and not (self._has_begun(part.epoch) and self._append(part.message_set, part.visible_end, ahead)):
            return False
        self.trouble = ""
        log.show_up_to(max(log.visible_end, min(part.visible_end, log.end)))
        if log.start < part.log_start <= log.visible_end:
            self.tasks.delete_before(part.log_start)
        return True

    def _has_begun(self, epoch: int) -> bool:
        """Return whether bytes of an epoch can be appended; else have the epoch file say so first: they come again.

        The file may name an epoch of which nothing came before its leader was deposed, or that this broker was to lead,
        perhaps in a write that has failed. Entries of an earlier epoch may come in its place.
        """
        history, end, is_written = self.history, self.log.end, self.tasks.is_written()
        last = history.before(end)
        if epoch == last == history.latest and is_written:
            return True
        if NO_EPOCH < epoch < last:
            return self._refuse(f"the leader sends bytes of epoch {epoch} behind those of a later one")
        if history.followed_by(epoch, end) == history and is_written:
            return True
        self.tasks.begin_epoch(epoch, end)
        return False

    def _append(self, data: Any, visible_end: int, ahead: Callable[[], None]) -> bool:
        """Append the whole entries of an answer; return False if nothing could be appended for a bad reason."""
        log = self.log
        found = loops.scan_set(data)
        if found.problem:
            return self._refuse(f"the leader sends a bad entry at {log.end + found.consumed}: {found.problem}")
        if not found.consumed:
            self.wanted_bytes = max(2 * len(data), self.wanted_bytes)  # an entry that does not fit
            return True
        rest = len(data) - found.consumed  # the beginning of an entry, which is sent again
        if rest > len(data) // 4:
            self.wanted_bytes = max(self.wanted_bytes, min(2 * len(data), MOST_WANTED_BYTES))
        elif rest < len(data) // 16:
            self.wanted_bytes //= 2
        if log.end + found.consumed <= visible_end:
            # A producer (acks=2) may wait for what is not visible: the leader counts it as appended by the fetch.
            self.ahead = found.consumed
            ahead()
            self.ahead = 0
        try:
            log.append([memoryview(data)[: found.consumed]], found.entries, found.newest)  # without a copy
        except LogdError as error:
            return self._refuse(str(error))
        # A producer may wait for this copy at the leader, which gathers for flush.messages and flush.ms; and a follower
        # that did so as well would be taken for one that has fallen behind.
        log.flush_soon()
        return True

    def _refuse(self, reason: str) -> bool:
        """Note and log why the partition does not follow now; the replica tries again later."""
        if self.trouble != reason:
            self.trouble = reason
            self._log.error(
                "{topic}-{partition} cannot follow broker {leader}: {reason}",
                topic=self.log.topic,
                partition=self.log.partition,
                leader=self.leader,
                reason=reason,
            )
        return False
