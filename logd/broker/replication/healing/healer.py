"""Heals the damaged segments of replicas here with the bytes of other in-sync replicas, one segment at a time.

A leader first lets another in-sync replica lead, if one can: a damaged log should not be the one that clients read.
The segment to which messages are appended is closed first. Then a new file is made (see
``logd.log.damage.replacement``): sound bytes are copied, damaged ones come from the leader, or from another in-sync
replica. Only what is visible is healed: it is the same on all in-sync replicas, whatever leader comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logd.backoff import Backoff
from logd.broker.replication.healing.other_replica import OtherReplica
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_manager import ReplicaManager
from logd.broker.verification.damaged_segments import DamagedSegment, SegmentKey
from logd.broker.verification.verifier import LogVerifier
from logd.deferreds.background import Background
from logd.deferreds.locking import QueueLock
from logd.deferreds.sleeping import sleep
from logd.deferreds.threads import on_thread
from logd.errors import CorruptMessage, InvalidRequest, LogdError, PartitionOffline
from logd.interfaces import IThreads
from logd.log.damage.inspection import SegmentPlace
from logd.log.damage.kinds import Damage
from logd.log.damage.replacement import SegmentReplacement
from logd.log.partition import PartitionLog
from logd.plurals import counted

#: Seconds for which a damaged leader waits until another replica has all of its messages.
GIVE_WAY_SECONDS = 5.0
#: The least and the most seconds between attempts to heal a segment.
RETRY_DELAYS = (0.5, 60.0)


@define(eq=False)
class Healer:
    """Heals what the verifier finds, until ``stop``. Owner thread only."""

    _log = Logger()

    _manager: ReplicaManager
    _verifier: LogVerifier
    _wall: Callable[[], float]
    _random: Callable[[], float]
    #: Segments that were healed, and the bytes that came from other replicas.
    healed: int = field(default=0, init=False)
    healed_bytes: int = field(default=0, init=False)
    #: Attempts after which the bytes were not had.
    failures: int = field(default=0, init=False)
    _under_way: set[SegmentKey] = field(factory=set, init=False)
    #: Damage for which a leadership was given up, or was tried to: once, however long the healing takes.
    _gave_way: set[SegmentKey] = field(factory=set, init=False)
    #: Segments are healed one after another, so that it costs a bounded share of the disk.
    turn: QueueLock = field(factory=QueueLock, init=False)
    _background: Background = field(factory=lambda: Background("healing a log"), init=False)

    @property
    def threads(self) -> IThreads:
        """The threads that read from the disk."""
        return self._manager.threads

    def heal(self, log: PartitionLog, start: int) -> None:
        """Heal a segment that was found to be damaged, as soon as that is possible."""
        key = (log.topic, log.partition, start)
        if key not in self._under_way:
            self._under_way.add(key)
            self._background.start(self._heal_in_the_end(key))

    def stop(self) -> None:
        """Heal no more."""
        self._background.stop()

    async def _heal_in_the_end(self, key: SegmentKey) -> None:
        backoff = Backoff(*RETRY_DELAYS, self._random)
        try:
            while True:
                await self.turn.acquire()
                try:
                    if await self._try(key):
                        return
                finally:
                    self.turn.release()
                await sleep(self._manager.clock, backoff.next())
        finally:
            self._under_way.discard(key)
            self._gave_way.discard(key)

    async def _try(self, key: SegmentKey) -> bool:
        """Try to heal a segment; return whether nothing is left to do."""
        topic, partition, start = key
        log, known = self._manager.store.log(topic, partition), self._verifier.damaged.get(key)
        if known is None:
            return True
        if log is None or log.offline is not None or log.replica is None or not log.segment_list.begins_at(start):
            self._verifier.damaged.forget(key)  # another log, or a later look, finds what is left of it
            return True
        if all(start + each.end <= log.start for each in known.damages):
            self._verifier.damaged.forget(key)  # the log begins behind them by now
            return True
        if start == log.last_segment_start:
            log.try_to_roll(self._wall())
        end = log.closed_segment_end(start)
        if end > log.visible_end:
            known.healing = "it is healed once all of the segment is visible"
            return False
        await self._give_way(log, key)
        if known.verified < end - start:  # it was not closed yet
            if await self._verifier.check(log, start) is None:
                return False
            found = self._verifier.damaged.get(key)
            if found is None:
                return True
            known = found
        return await self._heal(log, known, int(end))

    async def _give_way(self, log: PartitionLog, key: SegmentKey) -> None:
        role = self._manager.leader(log.topic, log.partition)
        if isinstance(role, LeaderRole) and key not in self._gave_way:
            self._gave_way.add(key)
            if await self._manager.give_way(role, GIVE_WAY_SECONDS):
                self._log.warn(
                    "{topic}-{partition} is damaged, so another in-sync replica leads it",
                    topic=log.topic,
                    partition=log.partition,
                )

    async def _heal(self, log: PartitionLog, known: DamagedSegment, end: int) -> bool:
        """Take the damaged bytes from the first replica that has them; return whether that is done."""
        reasons = []
        chosen = self._manager.states.get(log.topic, log.partition)
        for broker in self._manager.healing_sources(log.topic, log.partition) if chosen is not None else ():
            assert chosen is not None
            known.healing = f"it is being healed with the bytes of broker {broker}"
            other = OtherReplica(broker, self._manager, log, chosen)
            try:
                taken = await self._heal_from(log, known, end, other)
            except (LogdError, OSError) as error:
                reasons.append(f"broker {broker}: {error}")
            else:
                self._over(known, broker, taken)
                return True
            finally:
                other.close()
        if not log.segment_list.begins_at(known.start):
            return False  # removed meanwhile: the next attempt has nothing to do
        self.failures += 1
        text = "; ".join(reasons) or "no other replica is in sync"
        trouble = f"it cannot be healed now: {text}"
        if known.trouble != trouble:
            self._log.error("{path} {trouble}", path=f"{log.folder} at {known.start}", trouble=trouble)
        known.healing = known.trouble = trouble
        return False

    def _over(self, known: DamagedSegment, broker: int, taken: int) -> None:
        self.healed += 1
        self.healed_bytes += taken
        self._verifier.damaged.forget(known.key)
        self._log.warn(
            "{folder} is healed: {what}; {count} were taken from broker {broker}",
            folder=known.log.folder,
            what=known.text,
            count=counted(taken, "byte"),
            broker=broker,
        )

    async def _heal_from(self, log: PartitionLog, known: DamagedSegment, end: int, other: OtherReplica) -> int:
        """Replace the segment; return the bytes that were taken from the other replica. Raises LogdError, OSError.

        If entries of the other replica do not begin and end where the damage does, all of the segment is taken: where
        a length is damaged, apparent entries behind it may be none.
        """
        size = end - known.start
        try:
            return await self._replace(log, known, size, _ranges(known.damages, _unread(log, known.start), size), other)
        except (CorruptMessage, InvalidRequest, OSError) as error:
            self._log.debug("the whole segment is taken: {error}", error=str(error))
            if isinstance(error, CorruptMessage):
                known.verified = 0  # more is damaged than was found: it is verified again, if this does not help
            return await self._replace(log, known, size, [(_unread(log, known.start), size)], other)

    async def _replace(
        self,
        log: PartitionLog,
        known: DamagedSegment,
        size: int,
        ranges: Sequence[tuple[int, int]],
        other: OtherReplica,
    ) -> int:
        start, threads, files = known.start, self._manager.threads, self._manager.store.files
        place = SegmentPlace(log.folder, start, size, True)
        modified = log.segment_list.segments[log.segment_list.find(start)].modified
        if ranges:
            await other.read(start + ranges[0][0], 1)  # so that nothing is copied for a replica that lacks the bytes
        new = await on_thread(threads, lambda: SegmentReplacement.begin(files, place, modified))
        try:
            for begin, stop in ranges:
                while await on_thread(threads, partial(new.copy, begin)):
                    self.check(log, start, size)
                while new.size < stop:
                    data = await other.read(start + new.size, stop - new.size)
                    if new.size + len(data) > stop:
                        raise InvalidRequest(f"no entry ends at {start + stop} on broker {other.broker}")
                    await on_thread(threads, partial(new.append, data))
                    self.check(log, start, size)
            while await on_thread(threads, partial(new.copy, size)):
                self.check(log, start, size)
            await on_thread(threads, partial(new.finish, _unread(log, start)))
            other.check()
            self.check(log, start, size)
            # From the check to the rename nothing else runs on this thread, by which all begins that removes or
            # replaces files of a log: retention, truncation, another beginning, deletion.
            new.put_in_place()
        except CancelledError:
            raise  # a thread may still use the file; the next start removes it
        except BaseException:
            await on_thread(threads, new.discard)
            raise
        log.forget_file(start)
        await on_thread(threads, lambda: files.sync_directory(log.folder))
        return sum(stop - begin for begin, stop in ranges)

    def check(self, log: PartitionLog, start: int, size: int) -> None:
        """Raise PartitionOffline unless the log is still served, with this segment, and all of it is visible."""
        is_there = (
            self._manager.store.log(log.topic, log.partition) is log
            and log.offline is None
            and log.segment_list.begins_at(start)
            and log.closed_segment_end(start) == start + size <= log.visible_end
        )
        if not is_there:
            raise PartitionOffline(f"{log.folder} has changed while it was healed")


def _unread(log: PartitionLog, start: int) -> int:
    """Return the file position before which nobody reads a segment, because the log begins there."""
    return max(0, log.start - start)


def _ranges(damages: Sequence[Damage], unread: int, size: int) -> list[tuple[int, int]]:
    """Return the file positions between which bytes are damaged, ascending.

    Without those before ``unread``, which no other replica may have any more, and those behind the segment's end.
    """
    found: list[tuple[int, int]] = []
    for damage in sorted(damages, key=lambda each: each.position):
        begin, stop = max(damage.position, unread), min(damage.end, size)
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif begin < stop:
            found.append((begin, stop))
    return found
