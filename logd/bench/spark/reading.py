"""Measures Spark reading a topic, beside a source in Python that reads nothing and beside the same rows from Parquet.

All go into Spark's noop sink.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from attrs import asdict, frozen

from logd.errors import LogdError
from logd.protocol.message import Message
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from logd.testing.processes.broker import BrokerProcess

#: Reads of each kind before the first measured one: Java compiles its busy code, and Python workers start.
WARM_UP = 2


@frozen
class SparkResult:
    """Rows a second of the three, and the topic's ratios to the others."""

    bench: str
    messages: int
    size: int
    cores: int
    seconds: float
    rows_per_second: float
    #: Rows a second of a source in Python that has its record batches ready and reads nothing.
    ceiling_rows_per_second: float
    ratio_to_ceiling: float
    parquet_rows_per_second: float
    ratio_to_parquet: float
    #: Rows a second of one process that makes the same Arrow batches without Spark: the limit of the reader itself.
    reader_rows_per_second: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@frozen
class SparkBench:
    """Measures them ``rounds`` times, in turn, in one session with one broker; removes its files in ``folder``."""

    folder: str
    messages: int
    size: int = 200
    cores: int = 2
    rounds: int = 3
    tell: Callable[[str], None] = lambda _: None

    def run(self) -> list[SparkResult]:
        """Return one result for each round. Blocks. Raises NoJava, and LogdError when the broker does not start."""
        folder = tempfile.mkdtemp(prefix="logd-bench-", dir=self.folder)
        try:
            with BrokerProcess(f"{folder}/data", log_path=f"{folder}/broker.log") as broker:
                self.tell(f"publishing {self.messages:,} messages to read")
                self._fill(broker.address)
                return self._measure(broker.address, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _fill(self, address: str) -> None:
        with BlockingCluster(ClusterSettings(brokers=address)) as cluster:
            producer = ExecutorProducer(cluster)
            for number in range(self.messages):
                producer.send("bench", Message(b"%0*d" % (self.size, number)), 0)
            producer.flush()

    def _measure(self, address: str, folder: str) -> list[SparkResult]:
        from logd.bench.spark.ceiling import CeilingSource
        from logd.spark.session import local_session

        self.tell("starting Spark")
        spark = local_session("logd bench", f"local[{self.cores}]", memory="2g")
        try:
            self.tell("writing the rows as Parquet")
            self._topic(spark, address).write.parquet(f"{folder}/rows")
            spark.dataSource.register(CeilingSource)
            tasks = self._topic(spark, address).rdd.getNumPartitions()
            results = []
            for number in range(-WARM_UP, self.rounds):
                self.tell(f"round {number + 1} of {self.rounds}" if number >= 0 else "warming up")
                topic = self._seconds(self._topic(spark, address))
                ceiling = self._seconds(self._ceiling(spark, tasks))
                parquet = self._seconds(spark.read.parquet(f"{folder}/rows"))
                if number >= 0:
                    results.append(self._result(topic, ceiling, parquet, self._reader(address)))
            return results
        finally:
            spark.stop()

    def _topic(self, spark: Any, address: str) -> Any:
        return spark.read.format("logd").option("brokers", address).option("subscribe", "bench").load()

    def _ceiling(self, spark: Any, tasks: int) -> Any:
        options = {"rows": self.messages, "size": self.size, "tasks": tasks}
        return spark.read.format("logd-bench-ceiling").options(**options).load()

    @staticmethod
    def _seconds(frame: Any) -> float:
        begin = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begin

    def _reader(self, address: str) -> float:
        # In a process of its own, like a worker.
        command = [sys.executable, "-m", "logd.bench.spark.reader_alone", address, "bench"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LogdError(f"the reader failed: {done.stderr[-2000:]}")
        return float(json.loads(done.stdout)["rows_per_second"])

    def _result(self, topic: float, ceiling: float, parquet: float, reader: float) -> SparkResult:
        return SparkResult(
            bench="spark",
            messages=self.messages,
            size=self.size,
            cores=self.cores,
            seconds=round(topic, 3),
            rows_per_second=round(self.messages / topic),
            ceiling_rows_per_second=round(self.messages / ceiling),
            ratio_to_ceiling=round(ceiling / topic, 3),
            parquet_rows_per_second=round(self.messages / parquet),
            ratio_to_parquet=round(parquet / topic, 3),
            reader_rows_per_second=round(reader),
        )
