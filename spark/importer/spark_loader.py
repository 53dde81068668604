"""Loads by Spark: starts a session when it is needed, runs a job, counts, and reports a failure in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, field

from logd.errors import LogdError
from logd.spark.blocking.reading import DataLost
from logd.spark.blocking.schema_lookup import ReaderSchema
from logd.spark.importer.auditing.run_tallies import RowTally
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.explaining import explained
from logd.spark.importer.import_plan import PlannedRange
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.table_location import is_table
from logd.spark.importer.targets.layout import QUARANTINE
from logd.spark.importer.targets.offsets import Loaded, PlaceColumns
from logd.spark.importer.targets.target import Target
from logd.spark.importer.typed.quarantine import REASON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Called with the number of loaded bytes, and of all bytes to load.
Progress = Callable[[int, int], None]

#: The group of an import's jobs in Spark.
_GROUP = "logd-import"


@define(eq=False)
class SparkLoader:
    """See Loader. Starts a session, which takes seconds, when Spark is needed, unless ``session`` is one.

    ``progress`` is called on a thread of its own, and at the end, when everything is written, on the caller's thread.
    """

    settings: ImportSettings
    progress: Progress = lambda done, total: None
    session: SparkSession | None = None
    _ours: SparkSession | None = field(default=None, init=False)
    #: The quarantine of the folder that was loaded last, if it has one.
    _quarantine: str | None = field(default=None, init=False)

    def start(self, size: int) -> None:
        """See Loader."""
        self._opened(size)

    def load(
        self,
        ranges: Sequence[PlannedRange],
        folder: str,
        began_ms: int,
        columns: PlaceColumns,
        readers: Mapping[str, ReaderSchema],
    ) -> list[Loaded]:
        """See Loader."""
        # pyspark takes a second to import, and most errors are found before it is needed.
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from logd.spark.importer.counting import check, count
        from logd.spark.importer.loading import load
        from logd.spark.importer.progress import JobProgress
        from logd.spark.importer.typed.typed_loading import load_typed, load_typed_table
        from logd.spark.session import ending

        session = self._opened()
        total = sum(each.bytes for each in ranges)
        try:
            with ending(session, _GROUP, "logd import", stop=False):
                with JobProgress(session, total, lambda done: self.progress(done, total), _GROUP):
                    if readers and self.settings.to_table:
                        (reader,) = readers.values()
                        read = load_typed_table(session, self.settings, ranges, folder, reader)
                    elif readers:
                        reach = lambda done: self.progress(done, total)  # noqa: E731
                        read = load_typed(session, self.settings, ranges, folder, began_ms, readers, reach)
                    else:
                        read = load(session, self.settings, ranges, folder, began_ms, columns)
                self.progress(total, total)
                apart = bool(read.quarantined) and not self.settings.to_table
                self._quarantine = f"{folder}/{QUARANTINE}" if apart else None
                reason = REASON if readers and self.settings.to_table else None
                loaded = count(session, self.settings.format, folder, ranges, columns, self._quarantine, reason)
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise remedied(explained(error, "loading failed")) from error
        except BaseException as error:
            if not isinstance(error, Exception):
                self._ours = None  # it ends with the process
            raise
        check(loaded, read)
        return loaded

    def tally(self, folder: str, width: int) -> list[RowTally]:
        """See Loader."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from logd.spark.importer.auditing.run_tallies import tally_files

        try:
            return tally_files(self._opened(), self.settings.format, folder, width, self._quarantine)
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise explained(error, "counting for the audit failed") from error

    def target(self, location: str) -> Target:
        """See Loader."""
        if is_table(location):
            from logd.spark.importer.targets.iceberg import IcebergTarget

            return IcebergTarget(location, self.settings.partition_by)
        from logd.spark.importer.targets.hadoop import HadoopTarget

        return HadoopTarget(location, self._opened())

    def close(self) -> None:
        """End the session, if it was started here."""
        session, self._ours = self._ours, None
        if session is not None:
            with suppress(Exception):  # interrupted during a call, it cannot be stopped
                session.stop()

    def _opened(self, size: int | None = None) -> SparkSession:
        if self.session is not None:
            return self.session
        if self._ours is None:
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException

            from logd.spark.importer.session import open_session

            try:
                self._ours = open_session("logd import", self.settings.master, self.settings.spark, size)
            except (PySparkException, Py4JError) as error:
                raise explained(error, "a Spark session could not be started") from error
        return self._ours


#: The command's options by those of the data source.
_OPTIONS = {"maxDecompressedBytes": "--max-decompressed", "maxDecompressedMessages": "--max-decompressed-messages"}


def remedied(error: LogdError) -> LogdError:
    """Return the error with the remedy of an import instead of that of a read."""
    said = str(error)
    if isinstance(error, DataLost):
        said = said.partition("; with failOnDataLoss")[0]
        return DataLost(f"{said}; run the import again: it begins with what there is, and --on-data-loss decides")
    if any(option in said for option in _OPTIONS):
        said = said.partition(", or continue after it")[0]
        for name, option in _OPTIONS.items():
            said = said.replace(name, option)
        return ImportFailed(said)
    return error
