"""A check of every flush: with flush.messages and flush.ms set, none may come before its time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from logd.interfaces import Clock, IFileOperations
from logd.log.flush_task import FlushTask
from logd.log.flusher import Flushable, Flusher
from logd.log.group_sync_choice import GroupSyncs, open_groups
from logd.log.partition import PartitionLog
from logd.log.store import log_store
from tests.simulation.violation import check

#: Seconds by which two sums of times may differ by rounding.
_ROUNDING = 0.001


@contextmanager
def flushes_watched() -> Iterator[None]:
    """Raise Violation at a flush that is not due. Groups of partitions begin with two."""
    begin = Flusher._begin

    def watched(flusher: Flusher, log: Flushable) -> FlushTask:
        assert isinstance(log, PartitionLog)
        settings, state = log.settings, log.flush_state
        if settings.flush_messages != -1 and settings.flush_ms != -1 and not (state.due or flusher._hurried):
            waited = flusher._clock.seconds() - state.since + _ROUNDING
            is_time = state.unflushed_messages >= settings.flush_messages or waited >= settings.flush_ms / 1000
            has_rolled = log.segments()[-1][0] >= log.visible_end  # a full segment waits for nothing
            check(
                is_time or has_rolled,
                "a log was flushed before flush.messages or flush.ms allowed it",
                log.folder,
                state.unflushed_messages,
                waited,
            )
        return begin(flusher, log)

    with mock.patch.object(Flusher, "_begin", watched), mock.patch.object(log_store, "open_groups", _small_groups):
        yield


def _small_groups(files: IFileOperations, path: str, clock: Clock, workers: int) -> GroupSyncs | None:
    """Let two partitions share a sync, as a simulated broker has few."""
    groups = open_groups(files, path, clock, workers)
    if groups is not None:
        groups.least = 2
    return groups
