"""Handlers of repair requests: a scan of a log on a thread, in slices, and gaps in place of damaged bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.requests.core import BrokerCore
from logd.broker.requests.create_delete_topic import check_administration
from logd.broker.security.rights import Rights
from logd.broker.topics.lost_log import LostLog
from logd.deferreds.callbacks import called_back
from logd.deferreds.threads import on_thread
from logd.errors import (
    BrokerStopping,
    InvalidRequest,
    LogdError,
    OffsetOutOfRange,
    PartitionOffline,
    UnknownError,
    UnknownTopic,
    WireError,
    WrongPartition,
)
from logd.leadership import NO_LEADER
from logd.log.damage.folder_repair import FolderRepair, repair_folder
from logd.log.damage.inspection import SegmentInspection, SegmentPlace
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.damage.repair import hides_boundaries, make_gap_segment, mend, remove_index
from logd.log.offline_text import removed
from logd.log.partition import PartitionLog
from logd.plurals import counted
from logd.protocol.checksums import CHECKSUMS
from logd.protocol.requests.repair import (
    LOST_LOG,
    MOST_DESCRIBED,
    OFFLINE,
    SERVED,
    SERVED_AGAIN,
    Repair,
    RepairedDamage,
    RepairResponse,
)
from logd.security.access_rules import Operation

T = TypeVar("T")

#: Blocks of 1 MiB in one slice. Between slices the thread does other work, and a stop takes effect.
SLICE_BLOCKS = 4

_log = Logger()


class RepairRequests:
    """The repair requests of one connection. Each partition has one repair at a time, over all connections."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    def repair(self, request: Repair) -> Deferred[RepairResponse]:
        """Scan and repair the segment that contains the position, then answer.

        The repair continues if the connection is lost meanwhile.
        """
        return Deferred.fromCoroutine(self._answer(request))

    async def _answer(self, request: Repair) -> RepairResponse:
        key = (request.topic, request.partition)
        under_way = self._broker.repairs
        try:
            if self._broker.stopping:
                raise BrokerStopping("the broker is stopping")
            self._rights.check_topic(Operation.ALTER, request.topic)
            check_administration(self._broker, "repair a log")
            if key in under_way:
                raise InvalidRequest(f"a repair of {request.topic}-{request.partition} is under way")
            under_way.add(key)
            try:
                answer = await self._repair(request)
                self._record(request, None)
                return answer
            finally:
                under_way.discard(key)
        except WireError as error:
            self._record(request, error)
            return RepairResponse(error.code, text=str(error))
        except (LogdError, OSError) as error:
            self._record(request, error)
            return RepairResponse(UnknownError.code, text=str(error))

    def _record(self, request: Repair, error: BaseException | None) -> None:
        if not request.dry_run:
            details = {"partition": request.partition, "position": request.position}
            self._broker.administration_log.record(
                self._rights.requester, "repair", request.topic, error=error, **details
            )

    async def _repair(self, request: Repair) -> RepairResponse:
        log = self._broker.store.log(request.topic, request.partition)
        if log is None:
            if self._broker.topics.get(request.topic) is None:
                raise UnknownTopic(f"there is no topic {request.topic!r}")
            raise WrongPartition(f"partition {request.partition} of topic {request.topic!r} is not on this broker")
        refusal = self._broker.administration.refusal(request.topic, request.partition)
        if refusal is not None and not request.dry_run:  # the log may be another topic's
            raise InvalidRequest(f"{request.topic}-{request.partition} is not repaired: {refusal}")
        if log.replica is not None:
            return await self._repair_replica(log, request)
        lost = self._broker.ends.lost(request.topic, request.partition)
        if lost is not None:
            return await self._repair_lost(log, lost, request)
        if log.offline is not None:
            return await self._repair_offline(log, request)
        return await self._repair_segment(log, request)

    # Repair of a replica

    async def _repair_replica(self, log: PartitionLog, request: Repair) -> RepairResponse:
        """Verify a segment and have it healed; where no replica has the bytes, make gaps."""
        lost = self._broker.ends.lost(request.topic, request.partition)
        if lost is not None:
            return await self._repair_lost_replica(lost, request)
        if log.offline is not None:
            raise InvalidRequest(
                f"{request.topic}-{request.partition} is offline on this broker, and is not repaired here, as other "
                "brokers have replicas: it is copied anew from its leader. If none of them can lead it, see `logd "
                f"elect --help`. The reason: {log.offline}"
            )
        visible_end, healing = log.visible_end, self._broker.healing
        position = max(request.position, log.start)
        if position > visible_end:
            raise OffsetOutOfRange(f"position {position} is past the log's visible end {visible_end}")
        start = log.segment_list.starts[log.segment_list.find(position)]
        end = int(min(log.closed_segment_end(start), visible_end))
        damages = await healing.verifier.check(log, start)
        if damages is None:
            raise UnknownError(f"{log.folder} at {start} cannot be verified now: try again")
        if damages and not request.dry_run:
            await healing.repair(log, start)
        described = [(start, damage, not request.dry_run) for damage in damages]
        return _response(end, visible_end, described, SERVED)

    # Repair of a served partition

    async def _repair_segment(self, log: PartitionLog, request: Repair) -> RepairResponse:
        flushed_end = log.flushed_end
        # Retention may have removed segments since the last answer.
        position = max(request.position, log.start)
        if position > flushed_end:
            raise OffsetOutOfRange(f"position {position} is past the log's flushed end {flushed_end}")
        starts = [start for start, _, _ in log.segments()]
        number = bisect_right(starts, position) - 1
        following = starts[number + 1] if number + 1 < len(starts) else None
        place = SegmentPlace.of_log(log.folder, starts[number], following, flushed_end)
        files = self._broker.store.files
        end = flushed_end if following is None else min(following, flushed_end)
        if place.end == 0:
            return RepairResponse(0, end, flushed_end)
        try:
            inspection = await self._run(
                lambda: SegmentInspection.open(files, place, CHECKSUMS, writable=not request.dry_run, with_tail=False)
            )
        except FileNotFoundError:
            if log.start > starts[number]:
                return RepairResponse(0, end, flushed_end)  # retention has just removed the segment
            return await self._repair_missing(log, place, flushed_end, request.dry_run)
        try:
            going = inspection.run()
            while await self._run(lambda: _look_further(going)):
                if self._broker.stopping:
                    raise BrokerStopping("the broker is stopping")
            damages = inspection.damages
            if not request.dry_run:
                await self._mend(log, inspection)
        finally:
            inspection.close()
        described = [(place.start, damage, not request.dry_run and damage.kind.mendable) for damage in damages]
        return _response(end, flushed_end, described, SERVED)

    async def _repair_missing(
        self, log: PartitionLog, place: SegmentPlace, flushed_end: int, dry_run: bool
    ) -> RepairResponse:
        """Answer for a segment whose file was removed while the broker runs; put gaps in its place."""
        if not place.closed:
            # Appends go into a file that has no name any more.
            log.go_offline(removed(place.path))
            raise PartitionOffline(f"{log.topic}-{log.partition} is offline: {log.offline}")
        size = place.end or 0
        damage = Damage(0, size, DamageKind.MISSING, f"{place.path} is missing")
        if not dry_run:

            def make() -> None:
                self._check_stored(log)  # on the thread: the work may have waited there
                make_gap_segment(self._broker.store.files, log.folder, place.start, size)

            await self._run(make)
            log.forget_file(place.start)
            _log.warn("{path}: the missing file was replaced by gaps of {count} bytes", path=place.path, count=size)
        return _response(place.start + size, flushed_end, [(place.start, damage, not dry_run)], SERVED)

    async def _mend(self, log: PartitionLog, inspection: SegmentInspection) -> None:
        # A topic that was deleted and created again meanwhile has other files under the same names. The open file is
        # the right one if the log still existed after the file was opened.
        self._check_stored(log)
        files, damages, place = self._broker.store.files, inspection.damages, inspection.place
        mended = await self._run(lambda: mend(files, inspection.file, damages))
        if mended.gaps:
            _log.warn(
                "{path}: damaged bytes were replaced by {gaps}, {size}",
                path=place.path,
                gaps=counted(mended.gaps, "gap"),
                size=counted(mended.gap_bytes, "byte"),
            )
        if mended.kept:
            _log.warn(
                "{folder}: kept {entries} with a valid checksum that cannot be read, as *.entry.dropped",
                folder=log.folder,
                entries=counted(mended.kept, "entry", "entries"),
            )
        hidden = hides_boundaries(damages)
        if not place.closed:
            # The index is in memory, and was not checked.
            if hidden:
                log.forget_boundaries(place.start)
        elif hidden or any(remark.wrong for remark in inspection.index_remarks()):
            await self._run(lambda: remove_index(files, place.index_path))

    def _check_stored(self, log: PartitionLog) -> None:
        """Raise UnknownTopic or PartitionOffline if the files of this log's name may not be its own any more."""
        if self._broker.store.log(log.topic, log.partition) is not log:
            raise UnknownTopic(f"topic {log.topic!r} was deleted")
        if log.offline is not None:
            raise PartitionOffline(f"{log.folder} went offline: {log.offline}")

    # Repair of an offline partition

    async def _repair_offline(self, log: PartitionLog, request: Repair) -> RepairResponse:
        files = self._broker.store.files
        if request.dry_run:
            found = await self._run(lambda: repair_folder(files, log.folder, True, request.cut))
            return _response(found.end, found.end, found.damages, OFFLINE)
        outcome: list[FolderRepair] = []

        def prepare() -> bool:
            outcome.append(repair_folder(files, log.folder, False, request.cut))
            return outcome[0].is_sound

        online = await self._reopen(log, prepare)
        (found,) = outcome
        return _response(found.end, found.end, found.damages, SERVED_AGAIN if online else OFFLINE)

    async def _reopen(self, log: PartitionLog, prepare: Callable[[], bool]) -> bool:
        """Reopen a log if ``prepare`` returns true; return whether the log is served."""
        await called_back(partial(self._broker.store.reopen, log, prepare))
        self._broker.ends.reopened(log.topic, log.partition)
        now = self._broker.store.log(log.topic, log.partition)
        online = now is not None and now.offline is None
        if online:
            _log.warn("{folder} is served again", folder=log.folder)
        return online

    # Repair of a partition whose log is lost

    async def _repair_lost(self, log: PartitionLog, lost: LostLog, request: Repair) -> RepairResponse:
        ends = self._broker.ends
        if not request.dry_run and lost.other_instance is None:
            # The files may have been put back.
            try:
                if await self._reopen(log, lambda: True):
                    ends.changed(request.topic)
                    return RepairResponse(0, request.position, request.position, state=SERVED_AGAIN)
            except (LogdError, OSError) as error:
                _log.warn(
                    "{name} cannot be served, its log is still lost: {error}",
                    name=f"{log.topic}-{log.partition}",
                    error=str(error),
                )
                log.stay_offline(lost.reason())
        return await self._begin_again(lost, await self._run(lambda: ends.beginning(lost)), request)

    async def _repair_lost_replica(self, lost: LostLog, request: Repair) -> RepairResponse:
        """Begin a replicated partition again that all its replicas have lost; a person then lets this one lead."""
        from logd.broker.topics.lost_replicas import end_of_lost  # hardly ever needed

        replication, ends, name = self._broker.replication, self._broker.ends, f"{lost.topic}-{lost.partition}"
        known, replicas = replication.known(lost.topic, lost.partition)
        if known is None or known.uuid != lost.uuid or known.state.leader != NO_LEADER:
            raise InvalidRequest(
                f"{name} is not repaired here, as it is copied anew from its leader. The reason why it is offline: "
                f"{lost.reason()}"
            )
        try:
            stored = await ends.stored_by_all(lost)
        except ValueError as error:
            raise UnknownError(f"{name} cannot begin again: {error}") from error
        members = {*replicas, *known.state.in_sync, *known.state.last}
        end = end_of_lost(name, lost.partition, self._broker.store.broker_id, members, stored, replication.live())
        known_end = max(lost.known_end, end)
        position = await self._run(lambda: ends.beginning(evolve(lost, known_end=known_end)))
        then = f". No replica has a log: `logd elect {lost.topic} --unclean` lets this one lead then"
        return await self._begin_again(lost, position, request, then)

    async def _begin_again(self, lost: LostLog, position: int, request: Repair, then: str = "") -> RepairResponse:
        """Show a loss; begin the log again at ``position`` if just this loss is accepted."""
        accepted = request.accept_loss and not request.dry_run and request.position == position
        if accepted:
            await self._broker.ends.accept(lost, position)
            _log.warn("the loss was accepted and the log begins again: {loss}", loss=lost.loss(position))
        size = position - lost.first
        damage = RepairedDamage(lost.first, size, LOST_LOG, accepted, lost.loss(position) + then)
        return RepairResponse(0, position, position, 1, size, SERVED_AGAIN if accepted else OFFLINE, (damage,))

    def _run(self, work: Callable[[], T]) -> Deferred[T]:
        """Run ``work`` on a thread."""
        return on_thread(self._broker.threads, work)


def _look_further(going: Iterator[int]) -> bool:
    """Scan one slice; return whether there is more."""
    return all(next(going, None) is not None for _ in range(SLICE_BLOCKS))


def _response(checked_to: int, end: int, damages: list[tuple[int, Damage, bool]], state: int) -> RepairResponse:
    described = tuple(
        RepairedDamage(start + damage.position, damage.size, int(damage.kind), mended, damage.reason)
        for start, damage, mended in damages[:MOST_DESCRIBED]
    )
    size = sum(damage.size for _, damage, _ in damages)
    return RepairResponse(0, checked_to, end, len(damages), size, state, described)
