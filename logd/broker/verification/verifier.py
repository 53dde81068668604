"""Verifies the stored messages of all partitions in the background, at a bounded rate, from the disk.

Without it, damage would be found by the first reader of an old message: perhaps when no other replica, and no backup,
has the bytes any more. A pass begins with a log that is chosen at random, so that a broker that is often started again
comes to all of them; where the last life of the broker has stopped is not kept.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.logger import Logger

from logd.broker.verification.damaged_segments import DamagedSegments
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.deferreds.threads import on_thread
from logd.interfaces import Clock, IThreads
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.protocol.checksums import CHECKSUMS

if TYPE_CHECKING:  # imported for the first verification, minutes after the start of a broker
    from logd.log.damage.inspection import SegmentInspection, SegmentPlace
    from logd.log.damage.kinds import Damage

#: The longest wait after a start before the first pass: a start has other work for the disk.
FIRST_SECONDS = 300.0
#: The longest wait between two blocks, whatever the rate.
LONGEST_WAIT = 60.0
#: Errors of a read that mean that the bytes are lost: a bad sector, or damage that the file system has found itself.
_LOST = frozenset({errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO)})


@define(eq=False)
class LogVerifier:
    """Verifies logs from ``start`` to ``stop``. Owner thread only, but for the figures."""

    _log = Logger()

    _store: LogStore
    _threads: IThreads
    clock: Clock
    #: Bytes a second, and the least seconds between the beginnings of two passes.
    _rate: int
    _pass_seconds: float
    #: ``pick(n)`` is a random number below n.
    _pick: Callable[[int], int]
    damaged: DamagedSegments = field(factory=DamagedSegments, init=False)
    #: Called with a log and a segment's start when damage is found that was not known; and to say what comes of it.
    on_found: Callable[[PartitionLog, int], None] = field(default=lambda log, start: None, init=False)
    #: Bytes verified, and passes that have ended.
    bytes_verified: int = field(default=0, init=False)
    passes: int = field(default=0, init=False)
    #: Bytes of the pass under way, and how many of them are done.
    _pass_bytes: int = field(default=0, init=False)
    _pass_done: int = field(default=0, init=False)
    _background: Background = field(factory=lambda: Background("verifying logs"), init=False)

    @property
    def progress(self) -> float:
        """The share of the pass under way that is done, from 0 to 1; 1 between two passes. Any thread may ask."""
        return min(1.0, self._pass_done / self._pass_bytes) if self._pass_bytes else 1.0

    def start(self) -> None:
        """Begin, unless the rate is 0."""
        if self._rate:
            self._background.start(self._run())

    def stop(self) -> None:
        """Verify no more."""
        self._background.stop()

    async def _run(self) -> None:
        await sleep(self.clock, min(FIRST_SECONDS, self._pass_seconds))
        while True:
            began = self.clock.seconds()
            await self._pass()
            await sleep(self.clock, max(0.1, began + self._pass_seconds - self.clock.seconds()))

    async def _pass(self) -> None:
        """Verify all logs once."""
        logs = [log for log in self._store.logs() if log.offline is None and log.visible_end > log.start]
        if not logs:
            return
        self.damaged.forget_absent(self._store.logs())
        first = self._pick(len(logs))
        self._pass_done, self._pass_bytes = 0, sum(log.visible_end - log.segment_list.starts[0] for log in logs)
        for log in (*logs[first:], *logs[:first]):
            for start in log.segment_list.starts:
                await self.check(log, start, self._rate)
        self._pass_bytes = 0
        self.passes += 1

    async def check(self, log: PartitionLog, start: int, rate: int | None = None) -> list[Damage] | None:
        """Verify one segment up to the visible end, at a rate in bytes a second; return the damage and note it.

        None if the segment is not there any more, or cannot be read for a reason that passes by. Damage before the
        log's start is none: nobody reads those bytes.
        """
        if not self._is_there(log, start):
            return None
        from logd.log.damage.kinds import Damage, DamageKind

        place = _place(log, start)
        if not place.end:
            return []
        try:
            damages = await self._inspect(place, rate)
        except FileNotFoundError:
            damages = [Damage(0, place.end, DamageKind.MISSING, f"{place.path} is missing")]
        except OSError as error:
            if error.errno not in _LOST:
                self._log.warn("{path} cannot be verified now: {error}", path=place.path, error=error)
                return None
            damages = [Damage(0, place.end, DamageKind.LENGTH, f"{place.path} cannot be read: {error}")]
        if not self._is_there(log, start):
            return None  # removed, truncated or deleted meanwhile
        damages = [each for each in damages if start + each.end > log.start]
        if self.damaged.note(log, start, damages, place.end):
            self.on_found(log, start)
        return damages

    async def _inspect(self, place: SegmentPlace, rate: int | None) -> list[Damage]:
        from logd.log.damage.inspection import SegmentInspection
        from logd.log.damage.repair import remove_index

        files = self._store.files

        def begin() -> SegmentInspection:
            return SegmentInspection.open(files, place, CHECKSUMS, with_tail=place.closed, readable=None, uncached=True)

        inspection = await on_thread(self._threads, begin)
        steps = _Steps(inspection)
        try:
            before, more = 0, True
            while more:
                more = await on_thread(self._threads, steps.take)
                count = max(0, inspection.walk.position - before)
                before += count
                self.bytes_verified += count
                if rate:
                    self._pass_done += count
                    await sleep(self.clock, min(LONGEST_WAIT, count / rate))
        finally:
            steps.close()
        if place.closed and any(remark.wrong for remark in inspection.index_remarks()):
            self._log.info("{path} is wrong, and is made again when it is needed", path=place.index_path)
            await on_thread(self._threads, lambda: remove_index(files, place.index_path))
        return inspection.damages

    def _is_there(self, log: PartitionLog, start: int) -> bool:
        """Return whether a log is served, and has a segment that begins at ``start``."""
        return (
            self._store.log(log.topic, log.partition) is log
            and log.offline is None
            and log.segment_list.begins_at(start)
        )


@define(eq=False)
class _Steps:
    """The steps of one inspection, on threads; the file may be closed while a step is under way."""

    _inspection: SegmentInspection
    _going: Iterator[int] = field(init=False)
    _is_running: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._going = self._inspection.run()

    def take(self) -> bool:
        """Take one step; return whether there are more. Blocks; raises OSError."""
        self._is_running = True
        try:
            return next(self._going, None) is not None
        finally:
            self._is_running = False
            if self._is_over:
                self._inspection.close()

    def close(self) -> None:
        """Close the file, after the step under way if there is one."""
        self._is_over = True
        if not self._is_running:
            self._inspection.close()


def _place(log: PartitionLog, start: int) -> SegmentPlace:
    """Return the place of a segment, up to the visible end: what is not visible yet may be truncated."""
    from logd.log.damage.inspection import SegmentPlace

    number = log.segment_list.find(start)
    starts = log.segment_list.starts
    following = starts[number + 1] if number + 1 < len(starts) else None
    return SegmentPlace.of_log(log.folder, start, following, log.visible_end)
