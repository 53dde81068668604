"""The loader that is Spark: a session when it is needed, a job, a count, and what went wrong as one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, field

from logd.errors import BrokerUnavailable, ConfigurationError, LogdError
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.offsets import Loaded
from logd.spark.importer.planning import PlannedRange
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.target import Target
from logd.spark.reading import DataLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Told of how many bytes of how many are done.
Progress = Callable[[int, int], None]

#: How an error of ours looks in what Spark says of a failed task.
_OURS = re.compile(r"^logd\.[\w.]*?(\w+): (.*)$", re.M)


@define(eq=False)
class SparkLoader:
    """See Loader. Begins a session, which takes seconds, when Spark is needed, unless one is given as ``session``.

    ``progress`` is called on a thread of its own, and at last, when everything is written, on the caller's.
    """

    settings: ImportSettings
    progress: Progress = lambda done, total: None
    session: SparkSession | None = None
    _ours: SparkSession | None = field(default=None, init=False)

    def start(self, size: int) -> None:
        """See Loader."""
        self._opened(size)

    def load(self, ranges: Sequence[PlannedRange], folder: str, began_ms: int) -> list[Loaded]:
        """See Loader."""
        # pyspark takes a second to import, and most of what an import refuses is known before it is needed.
        from pyspark.errors import PySparkException

        from logd.spark.importer.counting import check, count
        from logd.spark.importer.loading import load
        from logd.spark.importer.progress import JobProgress

        session = self._opened()
        total = sum(each.bytes for each in ranges)
        try:
            with JobProgress(session, total, lambda done: self.progress(done, total)):
                read = load(session, self.settings, ranges, folder, began_ms)
            self.progress(total, total)
            loaded = count(session, self.settings.format, folder, ranges)
        except PySparkException as error:
            raise explained(error, "loading failed") from error
        check(loaded, read)
        return loaded

    def target(self, location: str) -> Target:
        """See Loader."""
        from logd.spark.importer.hadooptarget import HadoopTarget

        return HadoopTarget(location, self._opened())

    def close(self) -> None:
        """End the session, if it was begun here."""
        session, self._ours = self._ours, None
        if session is not None:
            with suppress(Exception):  # interrupted in the middle of a call, it is in no state to be stopped
                session.stop()

    def _opened(self, size: int | None = None) -> SparkSession:
        if self.session is not None:
            return self.session
        if self._ours is None:
            from logd.spark.importer.session import open_session

            self._ours = open_session("logd import", self.settings.master, self.settings.spark, size)
        return self._ours


def explained(error: Exception, what: str) -> LogdError:
    """An error of ours that a task died of, or the first line of Spark's; ``what`` failed."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, said = ours[-1]
        kinds: dict[str, type[LogdError]] = {
            each.__name__: each for each in (BrokerUnavailable, ConfigurationError, DataLost)
        }
        return kinds.get(name, ImportFailed)(f"{what}: {said}")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ImportFailed(f"{what} in Spark: {lines[0].rstrip(';') if lines else type(error).__name__}")
