"""Follows a Spark job from another thread and reports the share of its finished tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from pyspark.sql import SparkSession

#: Seconds between two checks.
_INTERVAL = 0.25

#: Called with the number of bytes done.
Reach = Callable[[int], None]


class JobProgress:
    """Follows a group's jobs while it is entered; ``reach`` is called on another thread, with growing numbers."""

    def __init__(self, session: SparkSession, total: int, reach: Reach, group: str) -> None:
        self._context = session.sparkContext
        self._group = group
        self._total = total
        self._reach = reach
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="logd-import-progress", daemon=True)

    def __enter__(self) -> JobProgress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(5)

    def _follow(self) -> None:
        tracker = self._context.statusTracker()
        while not self._ended.wait(_INTERVAL):
            try:
                for job_id in tracker.getJobIdsForGroup(self._group):
                    job = tracker.getJobInfo(job_id)
                    stages = [tracker.getStageInfo(stage) for stage in (job.stageIds if job is not None else ())]
                    tasks = sum(stage.numTasks for stage in stages if stage is not None)
                    done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
                    if done < tasks:  # after the last task the commit is still to be done
                        self._reach(self._total * done // tasks)
            except Exception:
                # The session ended or lost its JVM: the job reports that, and the progress bar need not.
                return
