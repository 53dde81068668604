"""Makes the PartitionLog of a folder: one that is served after a recovery, or one that is offline with the reason."""

from __future__ import annotations

from attrs import define, field

from logd.config import LogSettings
from logd.errors import LogdError
from logd.leadership import PartitionLeadership
from logd.log.offline_reasons import cannot_start
from logd.log.partition import PartitionLog
from logd.log.partition_context import PartitionContext
from logd.log.recovery.lost_segments import BytesLost
from logd.log.recovery.recovery import Recovered, recover_partition
from logd.log.segments import SegmentList
from logd.log.writer import SegmentWriter, no_segment


@define(eq=False)
class FolderOpener:
    """The way from a partition's folder to its log."""

    _around: PartitionContext
    #: The leadership of every partition that is stored here, as long as none has another replica; set before the first.
    leadership: PartitionLeadership = field(init=False)

    def recover(self, folder: str, settings: LogSettings, known_end: int | None) -> Recovered:
        """See recover_partition. Blocks; raises OSError and BytesLost."""
        around = self._around
        return recover_partition(around.files, folder, settings, around.wall(), around.report, known_end)

    def recover_again(self, folder: str, settings: LogSettings, known_end: int | None) -> Recovered:
        """Recover a partition while the store is open. Blocks; raises OSError and BytesLost.

        The data directory is synced, as at a start, since the folder may have been made in this life.
        """
        self._around.files.sync_directory(folder.rpartition("/")[0])
        return self.recover(folder, settings, known_end)

    def open(
        self, topic: str, partition: int, folder: str, settings: LogSettings, known_end: int | None
    ) -> PartitionLog:
        """Recover a partition; it is offline where that fails. Blocks."""
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
        """Return the log of what was recovered."""
        log = PartitionLog(
            topic,
            partition,
            folder,
            settings,
            self._around,
            found.segments,
            found.writer,
            found.start,
            found.writer.end,
            leadership or self.leadership,
            checkpoint=found.checkpoint,
        )
        # An empty last segment may be what a killed broker made and did not sync: its name has to last before anything
        # in it is seen.
        log.names_are_new([folder])
        return log

    def serve_again(self, former: PartitionLog, found: Recovered) -> PartitionLog:
        """Return the log that takes the place of ``former``, with its leadership; readers see no less of it."""
        settings, leadership = former.settings, former.leadership
        log = self.serve(former.topic, former.partition, former.folder, settings, found, leadership)
        log.visible_end = max(log.visible_end, min(former.visible_end, log.flushed_end))
        return log

    def new(
        self, topic: str, partition: int, folder: str, settings: LogSettings, writer: SegmentWriter
    ) -> PartitionLog:
        """Return the log of a folder that was just made, with one empty segment."""
        segments = SegmentList.of([writer.segment])
        return PartitionLog(topic, partition, folder, settings, self._around, segments, writer, 0, 0, self.leadership)

    def offline(
        self, topic: str, partition: int, folder: str, settings: LogSettings, reason: LogdError
    ) -> PartitionLog:
        """Return a log that is not served; the reason is reported."""
        self._around.report("{error}", error=reason)
        writer = no_segment(self._around.files, folder)
        segments = SegmentList.of([writer.segment])
        return PartitionLog(
            topic, partition, folder, settings, self._around, segments, writer, 0, 0, self.leadership, offline=reason
        )
