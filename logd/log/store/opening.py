"""The opening of a partition's folder as a PartitionLog: served after a recovery, or offline with the reason."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field

from logd.config import LogSettings
from logd.errors import LogdError
from logd.leadership import NO_LEADER, PartitionLeadership
from logd.log.offline_text import cannot_start
from logd.log.partition import PartitionLog
from logd.log.partition_context import PartitionContext
from logd.log.recovery.lost_segments import BytesLost
from logd.log.recovery.recovery import Recovered, recover_partition
from logd.log.segments import SegmentList
from logd.log.writer import SegmentWriter, no_segment


@define(eq=False)
class FolderOpener:
    """Makes logs of partitions' folders."""

    _context: PartitionContext
    #: The leadership of every partition that only this broker stores. Set before the first use.
    alone: PartitionLeadership = field(init=False)
    #: Returns whether a topic's partitions have, or may get, several replicas.
    is_replicated: Callable[[str], bool] = field(init=False, default=lambda topic: False)

    def leadership(self, topic: str) -> PartitionLeadership:
        """Return the leadership of a new log: not known yet if there are other replicas."""
        return evolve(self.alone, leader=NO_LEADER, in_sync=()) if self.is_replicated(topic) else self.alone

    def recover(self, folder: str, settings: LogSettings, known_end: int | None) -> Recovered:
        """See recover_partition. Blocks; raises OSError and BytesLost."""
        context = self._context
        return recover_partition(context.files, folder, settings, context.wall(), context.report, known_end)

    def recover_again(self, folder: str, settings: LogSettings, known_end: int | None) -> Recovered:
        """Recover a partition while the store is open. Blocks; raises OSError and BytesLost.

        The data directory is synced, as at a start, since the folder may be new since then.
        """
        self._context.files.sync_directory(folder.rpartition("/")[0])
        return self.recover(folder, settings, known_end)

    def open(
        self, topic: str, partition: int, folder: str, settings: LogSettings, known_end: int | None
    ) -> PartitionLog:
        """Recover a partition and return its log, which is offline if the recovery fails. Blocks."""
        try:
            found = self.recover(folder, settings, known_end)
        except BytesLost as error:
            return self.offline(topic, partition, folder, settings, error)
        except OSError as error:
            return self.offline(topic, partition, folder, settings, cannot_start(folder, error))
        return self.serve(topic, partition, folder, settings, found)

    def serve(
        self,
        topic: str,
        partition: int,
        folder: str,
        settings: LogSettings,
        found: Recovered,
        leadership: PartitionLeadership | None = None,
    ) -> PartitionLog:
        """Return the log of a recovered partition."""
        log = PartitionLog(
            topic,
            partition,
            folder,
            settings,
            self._context,
            found.segments,
            found.writer,
            found.start,
            found.writer.end,
            leadership or self.leadership(topic),
            checkpoint=found.checkpoint,
            deleted_before=found.first,
        )
        # A broker that was killed may have created an empty last segment without a sync: its name must be durable
        # before anything in it becomes visible.
        log.names_are_new([folder])
        return log

    def serve_again(self, former: PartitionLog, found: Recovered) -> PartitionLog:
        """Return the log that replaces ``former``, with its leadership; its visible end does not go back."""
        log = self.serve(former.topic, former.partition, former.folder, former.settings, found, former.leadership)
        if former.visible_limit is not None:  # it was shown as a replica of several
            log.visible_limit = min(former.visible_end, log.flushed_end)
            log.visible_end = max(log.start, log.visible_limit)
        else:
            log.visible_end = max(log.visible_end, min(former.visible_end, log.flushed_end))
        return log

    def new(
        self, topic: str, partition: int, folder: str, settings: LogSettings, writer: SegmentWriter
    ) -> PartitionLog:
        """Return the log of a new folder with one empty segment."""
        segments = SegmentList.of([writer.segment])
        return PartitionLog(
            topic, partition, folder, settings, self._context, segments, writer, 0, 0, self.leadership(topic)
        )

    def offline(
        self, topic: str, partition: int, folder: str, settings: LogSettings, reason: LogdError
    ) -> PartitionLog:
        """Return a log that is offline, and report the reason."""
        self._context.report("{error}", error=reason)
        writer = no_segment(self._context.files, folder)
        segments = SegmentList.of([writer.segment])
        return PartitionLog(
            topic,
            partition,
            folder,
            settings,
            self._context,
            segments,
            writer,
            0,
            0,
            self.leadership(topic),
            offline=reason,
        )
