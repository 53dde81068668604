"""One import from beginning to end: survey, plan, load, count, publish; whatever fails leaves nothing visible."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define

from logd.errors import BrokerUnavailable, ConfigurationError, LogdError
from logd.spark.cluster import Cluster
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.localtarget import LocalTarget
from logd.spark.importer.offsets import Loaded, RunOffsets
from logd.spark.importer.planning import Plan, plan
from logd.spark.importer.report import ImportReport
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.survey import check_still_there, survey
from logd.spark.importer.target import Target, last_run, publish
from logd.spark.reading import DataLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Told of how many bytes of how many are done.
Progress = Callable[[int, int], None]

#: How an error of ours looks in what Spark says of a failed task.
_OURS = re.compile(r"^logd\.[\w.]*?(\w+): (.*)$", re.M)


@define(eq=False)
class Importer:
    """Runs one import. ``open_session`` is called when Spark is needed: on the local file system not before a load."""

    settings: ImportSettings
    open_session: Callable[[], SparkSession]
    progress: Progress = lambda done, total: None
    clock: Callable[[], float] = time.time
    _session: SparkSession | None = None

    def run(self) -> ImportReport:
        """Import what is new, or say what would be.

        Raises RunLost where another import was faster or is at work; DataLost where messages are gone that were not
        loaded; TargetError for a target that is not what imports leave behind; BrokerUnavailable, UnknownTopic and
        other WireErrors; ImportFailed for what went wrong in Spark. Nothing of the run is visible then.
        """
        settings = self.settings
        began = self.clock()
        with Cluster(settings.cluster) as cluster:
            states = survey(cluster, settings.subscription, settings.starting)
            target = self._target()
            try:
                if not settings.dry_run:
                    target.acquire()
                    target.clean()
                last = last_run(target)
                planned = plan(states, last.positions if last is not None else {}, settings.accept_loss)
                if settings.dry_run or not planned.ranges:
                    return ImportReport(target.location, planned, dry_run=settings.dry_run, notices=planned.notices)
                return self._load(cluster, target, last, planned, began)
            finally:
                target.close()

    def _target(self) -> Target:
        path = self.settings.local_path
        if path is not None:
            return LocalTarget(path)
        from logd.spark.importer.hadooptarget import HadoopTarget

        return HadoopTarget(self.settings.to, self._spark())

    def _spark(self) -> SparkSession:
        if self._session is None:
            self._session = self.open_session()
        return self._session

    def _load(
        self, cluster: Cluster, target: Target, last: RunOffsets | None, planned: Plan, began: float
    ) -> ImportReport:
        run_uuid = str(uuid.uuid4())
        session = self._spark()
        try:
            loading = self.clock()
            loaded = self._into(session, target.staging(run_uuid), planned, round(began * 1000))
            load_seconds = self.clock() - loading
            check_still_there(cluster, planned.ranges)
            offsets = RunOffsets(
                run=last.run + 1 if last is not None else 1,
                uuid=run_uuid,
                previous_uuid=last.uuid if last is not None else "",
                began_ms=round(began * 1000),
                data={
                    "format": self.settings.format,
                    "codec": self.settings.compression,
                    "partition_by": list(self.settings.partition_by),
                },
                loaded=tuple(loaded),
                lost=planned.lost,
                positions=planned.positions,
            )
            publish(target, offsets)
        except BaseException:
            target.discard(run_uuid)
            raise
        return ImportReport(
            target.location,
            planned,
            offsets.run,
            run_uuid,
            loaded,
            seconds=self.clock() - began,
            load_seconds=load_seconds,
            notices=planned.notices,
        )

    def _into(self, session: SparkSession, folder: str, planned: Plan, began_ms: int) -> list[Loaded]:
        """Load and count; turn what Spark raises into a sentence."""
        from pyspark.errors import PySparkException

        from logd.spark.importer.counting import check, count
        from logd.spark.importer.loading import load
        from logd.spark.importer.progress import JobProgress

        total = planned.bytes
        try:
            with JobProgress(session, total, lambda done: self.progress(done, total)):
                read = load(session, self.settings, planned.ranges, folder, began_ms)
            self.progress(total, total)
            loaded = count(session, self.settings.format, folder, planned.ranges)
        except PySparkException as error:
            raise explained(error, "loading failed") from error
        check(loaded, read)
        return loaded


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
