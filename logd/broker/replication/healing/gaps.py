"""Gaps in place of damage that no replica has the bytes for, made by the leader when a person asks for it.

Each replica has to be in sync, and to lack the bytes: one that is away may have them when it is back. The others are
damaged in the same place, so they copy the gap when they heal, and all replicas are equal again.
"""

from __future__ import annotations

from attrs import define
from twisted.logger import Logger

from logd.broker.replication.healing.healer import Healer
from logd.broker.replication.healing.other_replica import OtherReplica
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_manager import ReplicaManager
from logd.broker.verification.damaged_segments import DamagedSegment
from logd.broker.verification.verifier import LogVerifier
from logd.deferreds.threads import on_thread
from logd.errors import InvalidMessage, InvalidRequest, LogdError, NotLeader
from logd.interfaces import IFileOperations
from logd.log.damage.inspection import SegmentInspection, SegmentPlace
from logd.log.damage.kinds import DamageKind
from logd.log.damage.repair import Mended, hides_boundaries, make_gap_segment, mend, remove_index
from logd.log.partition import PartitionLog
from logd.plurals import counted
from logd.protocol.checksums import CHECKSUMS


@define(eq=False)
class ReplicatedGaps:
    """Makes gaps in replicas that this broker leads. Owner thread only."""

    _log = Logger()

    _manager: ReplicaManager
    _verifier: LogVerifier
    _healer: Healer

    async def make(self, log: PartitionLog, start: int) -> None:
        """Put gaps in the place of a segment's damage. Raises NotLeader, InvalidRequest, OSError, with the reason."""
        await self._healer.turn.acquire()
        try:
            known = self._verifier.damaged.get((log.topic, log.partition, start))
            if known is None:
                return
            size = int(log.closed_segment_end(start)) - start if start != log.last_segment_start else 0
            self._leading(log)
            self._healer.check(log, start, size)
            await self._check_others(log, known)
            self._leading(log)
            await self._make(log, start, size)
            log.forget_file(start)
            await self._verifier.check(log, start)
        finally:
            self._healer.turn.release()

    def _leading(self, log: PartitionLog) -> LeaderRole:
        """Return the role of a log that leads, with all replicas in sync; else raise the reason for a refusal."""
        role, name = self._manager.leader(log.topic, log.partition), f"{log.topic}-{log.partition}"
        if role is None or role.refusal is not None:
            raise NotLeader(f"{name} is led by another broker now: the leader makes gaps, so ask again")
        others = self._manager.healing_sources(log.topic, log.partition)
        if role.is_under_replicated or len(others) < len(role.in_sync) - 1:
            raise InvalidRequest(
                f"{name} is damaged, and not all of its replicas are in sync: one that is not may have the bytes. Wait "
                "until it is back, or give it up for good (`logd topics reassign`); then repair again"
            )
        return role

    async def _check_others(self, log: PartitionLog, known: DamagedSegment) -> None:
        """Raise InvalidRequest if another replica has the bytes of a damage, or does not say that it lacks them."""
        chosen = self._leading(log).state
        for broker in self._manager.healing_sources(log.topic, log.partition):
            other = OtherReplica(broker, self._manager, log, chosen)
            try:
                for damage in known.damages:
                    try:
                        await other.read(known.start + damage.position, 1)
                    except (InvalidMessage, InvalidRequest):
                        continue  # damaged there too
                    except LogdError as error:
                        raise InvalidRequest(
                            f"broker {broker} does not say whether it has the bytes: {error}"
                        ) from error
                    raise InvalidRequest(f"broker {broker} has the bytes, with which this one is healed soon")
            finally:
                other.close()

    async def _make(self, log: PartitionLog, start: int, size: int) -> None:
        files, threads = self._manager.store.files, self._manager.threads
        place = SegmentPlace(log.folder, start, size, True)
        try:
            inspection = await on_thread(threads, lambda: _inspected(files, place))
        except FileNotFoundError:
            await on_thread(threads, lambda: make_gap_segment(files, log.folder, start, size))
            self._log.warn("{path} was missing, and is made of gaps", path=place.path)
            return
        try:
            self._healer.check(log, start, size)
            damages = inspection.damages
            mended: Mended = await on_thread(threads, lambda: mend(files, inspection.file, damages))
            if hides_boundaries(damages):
                await on_thread(threads, lambda: remove_index(files, place.index_path))
        finally:
            inspection.close()
        self._log.warn(
            "{path}: damaged bytes that no replica has were replaced by {gaps}, {size}",
            path=place.path,
            gaps=counted(mended.gaps, "gap"),
            size=counted(mended.gap_bytes, "byte"),
        )
        if any(damage.kind is DamageKind.UNVOUCHED for damage in damages):
            raise InvalidRequest(f"{place.path} has damage for which a gap has no room: {damages[0].reason}")


def _inspected(files: IFileOperations, place: SegmentPlace) -> SegmentInspection:
    """Return the segment's inspection, at its end, with the file open for writing. Blocks; raises OSError."""
    inspection = SegmentInspection.open(files, place, CHECKSUMS, writable=True, readable=None)
    try:
        for _ in inspection.run():
            pass
    except BaseException:
        inspection.close()
        raise
    return inspection
