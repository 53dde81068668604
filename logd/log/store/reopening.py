"""The return of offline partitions to service: preparation and recovery of the folder on a thread, as at a start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logd.errors import UnknownError
from logd.interfaces import IThreads
from logd.log.checkpoints_and_expiry import Upkeep
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_segments import BytesLost
from logd.log.recovery.recovery import Recovered
from logd.log.store.opening import FolderOpener


@define(eq=False)
class Reopener:
    """Reopens offline logs. Owner thread only."""

    _threads: IThreads
    _upkeep: Upkeep
    _opener: FolderOpener
    #: Replaces a log by another; called only while ``_is_stored(log)``.
    _replace: Callable[[PartitionLog], object]
    _is_stored: Callable[[PartitionLog], bool]
    #: Partitions that are being prepared and recovered, with the callbacks that wait for the end.
    _under_way: dict[PartitionLog, list[Callable[[], None]]] = field(init=False, factory=dict)

    def reopen(
        self,
        log: PartitionLog,
        prepare: Callable[[], bool],
        known_end: int | None,
        done: Callable[[BaseException | None], None],
    ) -> None:
        """See LogStore.reopen; ``known_end`` as for recover_partition.

        ``done`` gets UnknownError if the log is being reopened already, or if another log has its name, or none: what
        is prepared and recovered would be the files of that log.
        """
        if log in self._under_way or not self._is_stored(log):
            done(UnknownError(f"{log.topic}-{log.partition} is changed by another request: try again soon"))
            return

        def work() -> Recovered | None:
            return self._opener.recover_again(log.folder, log.settings, known_end) if prepare() else None

        def recovered(found: Recovered | None, error: BaseException | None) -> None:
            callbacks = self._under_way.pop(log)
            if isinstance(error, BytesLost):
                log.stay_offline(error)  # the current reason: files may have been restored since the last attempt
            if found is not None and self._is_stored(log):
                log.close()
                self._replace(self._opener.serve_again(log, found))
            elif found is not None:
                found.writer.close()
            for callback in callbacks:
                callback()
            done(error)

        def begin() -> None:
            if log.is_syncing:
                log.when_settled(begin)
            else:
                self._threads.run(work, recovered)

        self._under_way[log] = []
        self._upkeep.forget([log], begin)

    def when_none(self, logs: Sequence[PartitionLog], done: Callable[[], None]) -> None:
        """Call ``done`` once none of ``logs`` is being reopened, perhaps at once."""
        busy = next((log for log in logs if log in self._under_way), None)
        if busy is None:
            done()
        else:
            self._under_way[busy].append(lambda: self.when_none(logs, done))
