"""A warehouse for tests of Iceberg tables: a real catalog in SQLite and real files, without Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.spark.importer.targets.offsets import RunOffsets
from logd.spark.importer.targets.target import publish

_NEEDED = ("pyarrow", "pyiceberg", "sqlalchemy")
MISSING = [name for name in _NEEDED if find_spec(name) is None]

if not MISSING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import Table

    from logd.spark.importer.targets.iceberg import IcebergTarget

NOON = datetime(2011, 11, 11, 12, tzinfo=UTC)


def setUpModule() -> None:  # the name that unittest knows
    """Skip, with the reason, where Iceberg is not installed."""
    if MISSING:
        raise SkipTest(f"not installed: {', '.join(MISSING)}; pip install 'logd[iceberg]'")


class TableTestCase(SynchronousTestCase):
    """A warehouse in a folder, and a table in it."""

    def setUp(self) -> None:
        """Choose the folder."""
        setUpModule()
        self.folder = os.path.abspath(self.mktemp())
        self.to = f"iceberg://{self.folder}/logs.clicks"
        self.target = self.opened()

    def opened(self, folders: Sequence[str] = ("topic", "hour"), stale_seconds: float = 86400.0) -> IcebergTarget:
        """Return another target for the same table, as another import has it."""
        target = IcebergTarget(self.to, folders, stale_seconds)
        self.addCleanup(target.close)
        return target

    def table(self) -> Table:
        """Return the table as any reader loads it."""
        properties = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}
        return load_catalog("default", type="sql", **properties).load_table("logs.clicks")

    def stage(self, target: IcebergTarget, run: RunOffsets, **more: Any) -> None:
        """Write a file with the run's messages of ten bytes, and the columns ``more``."""
        target.acquire()
        folder = Path(target.staging(run.uuid).removeprefix("file://"), "by_topic=a")
        folder.mkdir(parents=True)
        for each in run.loaded:
            ids = list(range(each.start, each.end, 10))
            columns = {
                "topic": [each.lineage.topic] * len(ids),
                "partition": pa.array([each.lineage.partition] * len(ids), pa.int32()),
                "id": ids,
                "next_position": [id_ + 10 for id_ in ids],
                "timestamp": pa.array([NOON] * len(ids), pa.timestamp("us", "UTC")),
                **{name: [value] * len(ids) for name, value in more.items()},
            }
            pq.write_table(pa.table(columns), folder / f"part-{each.lineage.partition}.parquet")

    def load(self, target: IcebergTarget, run: RunOffsets, **more: Any) -> RunOffsets:
        """Stage and publish a run, and return it."""
        self.stage(target, run, **more)
        publish(target, run)
        return run

    def ids(self) -> list[int]:
        """Return the ids in the table, in order."""
        found: list[int] = self.table().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        return sorted(found)

    def staged(self) -> list[str]:
        """Return the folders of data, and the marks."""
        top = Path(self.folder, "logs", "clicks")
        return sorted(str(each.relative_to(top)) for each in (*top.glob("data/*"), *top.glob("_staging/*")))
