"""Rewrites runs with Spark: starts a session when one is needed, and reports a failure in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, field

from logd.spark.importer.compaction.compactor import Rewritten
from logd.spark.importer.explaining import explained
from logd.spark.importer.targets.layout import QUARANTINE, STAGING, run_name
from logd.spark.importer.targets.offsets import RunOffsets
from logd.spark.importer.targets.target import Target
from logd.spark.importer.typed.typing_plan import VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The group of a compaction's jobs in Spark.
_GROUP = "logd-compaction"


@define(eq=False)
class SparkRewriter:
    """See Rewriter. ``master`` and ``conf`` are Spark's; starts a session when it is needed, unless one is given."""

    master: str | None = None
    conf: Mapping[str, str] = field(factory=dict)
    session: SparkSession | None = None
    _ours: SparkSession | None = field(default=None, init=False)

    def rewrite(self, target: Target, runs: Sequence[RunOffsets], staged: str, tasks: int) -> Rewritten:
        """See Rewriter."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from logd.spark.importer.compaction.rewriting import rewrite
        from logd.spark.session import ending

        session = self._opened(sum(each.size for each in runs))
        try:
            with ending(session, _GROUP, "logd import --compact", stop=False):
                staging = target.staging(staged)
                location = staging.removesuffix(f"/{STAGING}/{staged}")
                return Rewritten(*rewrite(session, location, runs, staging, tasks, _parts(target, runs)))
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise explained(error, "merging failed") from error
        except BaseException as error:
            if not isinstance(error, Exception):
                self._ours = None  # it ends with the process
            raise

    def target(self, location: str) -> Target:
        """See Rewriter."""
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
                self._ours = open_session("logd import --compact", self.master, self.conf, size)
            except (PySparkException, Py4JError) as error:
                raise explained(error, "a Spark session could not be started") from error
        return self._ours


def _parts(target: Target, runs: Sequence[RunOffsets]) -> dict[str, list[str]]:
    """Return what is written by itself, with the runs that have it: each topic, if values have types of their own.

    All messages that cannot be decoded are a part, too. A run in which all messages of a topic are such has no files
    in the folder of the topic.
    """
    if VALUES not in runs[-1].data or target.folders is None:
        return {"": [run_name(run.run) for run in runs if run.messages]}
    parts: dict[str, list[str]] = {}
    for run in runs:
        ranges = (*run.loaded, *run.backfilled)
        for topic in sorted({each.lineage.topic for each in ranges if each.messages > each.quarantined}):
            parts.setdefault(f"topic={topic}", []).append(run_name(run.run))
        if run.quarantined:
            parts.setdefault(QUARANTINE, []).append(run_name(run.run))
    return parts
