"""The deletion of the messages at the beginning of a log, on request."""

from __future__ import annotations

from collections.abc import Callable

from logd.errors import OffsetOutOfRange, PartitionOffline
from logd.interfaces import IThreads
from logd.log.checkpoints_and_expiry import Upkeep
from logd.log.index import lookup
from logd.log.partition import PartitionLog
from logd.log.retention_rule import begin_at


def delete_before(
    threads: IThreads,
    upkeep: Upkeep,
    log: PartitionLog,
    position: int,
    done: Callable[[BaseException | None], None],
) -> None:
    """See LogStore.delete_before."""
    if log.offline is not None:
        done(PartitionOffline(f"{log.topic}-{log.partition} is offline: {log.offline}"))
        return
    if position > log.visible_end:
        end = log.visible_end
        done(OffsetOutOfRange(f"{log.folder}: position {position} is past {end}, up to which readers see the log"))
        return

    def found(boundary: int | None, error: BaseException | None) -> None:
        if boundary is None:
            done(error)
            return
        if log.offline is None:  # else upkeep says so
            begin_at(log, boundary)
            log.deleted_before = max(log.deleted_before, position)
        upkeep.make_start_durable(log, done)

    if position <= log.start or log.is_boundary_known(position):
        found(max(position, log.start), None)
        return
    snapshot = log.snapshot(log.visible_end)
    threads.run(lambda: lookup.find_boundary(snapshot, position), found)
