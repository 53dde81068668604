"""The source that stands for the ceiling of all sources in Python has the columns of ``format("logd")``."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase


class CeilingTests(SynchronousTestCase):
    """The source, without a session."""

    def setUp(self) -> None:
        """Skip without pyspark."""
        try:
            import pyspark  # noqa: F401
        except ImportError:
            self.skipTest("pyspark is not installed")

    def test_its_columns_are_those_of_a_topic(self) -> None:
        """Otherwise it would be a ceiling of something else."""
        from logd.bench.spark.ceiling import CeilingSource
        from logd.spark.driver.source import LogdDataSource

        ours = CeilingSource({}).schema().simpleString()
        self.assertEqual(ours, LogdDataSource({"subscribe": "bench"}).schema().replace("`", ""))

    def test_the_tasks_have_all_rows_between_them(self) -> None:
        """In whole batches, but for each task's last one."""
        from logd.bench.spark.ceiling import BATCH_BYTES, CeilingSource

        size = BATCH_BYTES // 100
        source = CeilingSource({"rows": "1000", "size": str(size), "tasks": "3"})
        reader: Any = source.reader(source.schema())
        read = [[batch.num_rows for batch in reader.read(each)] for each in reader.partitions()]
        self.assertEqual(read, [[100, 100, 100, 33], [100, 100, 100, 33], [100, 100, 100, 34]])

    def test_values_have_their_size(self) -> None:
        """The bytes are what costs."""
        from logd.bench.spark.ceiling import made_batch

        batch = made_batch(3, 20)
        self.assertEqual([len(each) for each in batch.column("value").to_pylist()], [20, 20, 20])
