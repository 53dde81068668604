"""Measures ``logd import`` with a schema registry, beside an import of the same messages as bytes."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from logd.avro.framing import head
from logd.protocol.message import Message
from logd.protocol.optional_packages import needing
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.schema_registry import SchemaRegistryProcess

TOPIC = "bench"
_SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "user", "type": "long"},
        {"name": "page", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "referrer", "type": ["null", "string"], "default": None},
    ],
}
#: Different messages, which are sent again and again: making each anew would take longer than importing it.
_DIFFERENT = 1000
#: Imports of each kind before the first measured one: Java compiles its busy code, and Python workers start.
_WARM_UP = 1


@frozen
class SparkImportResult:
    """Rows a second of both imports, reading, writing and counting, and their ratio."""

    bench: str
    messages: int
    size: int
    cores: int
    seconds: float
    typed_rows_per_second: float
    untyped_rows_per_second: float
    ratio_to_untyped: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@frozen
class SparkImportBench:
    """Imports ``messages`` of about ``size`` bytes both ways, ``rounds`` times, in turn, in one session."""

    folder: str
    messages: int
    size: int = 200
    cores: int = 2
    rounds: int = 3
    tell: Callable[[str], None] = lambda _: None

    def run(self) -> list[SparkImportResult]:
        """Return one result for each round. Blocks. Raises NoJava, MissingPackage, LogdError if a server fails."""
        with needing("fastavro", "an import with a schema registry"):
            import fastavro
        folder = tempfile.mkdtemp(prefix="logd-bench-", dir=self.folder)
        try:
            with (
                BrokerProcess(f"{folder}/data", log_path=f"{folder}/broker.log") as broker,
                SchemaRegistryProcess(broker.coordination, f"{folder}/registry.log") as registry,
            ):
                self.tell(f"publishing {self.messages:,} messages to import")
                beginning = head(_register(registry.url))
                schema = fastavro.parse_schema(_SCHEMA)
                values = [_payload(fastavro, schema, beginning, number, self.size) for number in range(_DIFFERENT)]
                self._fill(broker.address, values)
                return self._measure(broker.address, registry.url, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _fill(self, address: str, values: list[bytes]) -> None:
        with BlockingCluster(ClusterSettings(brokers=address)) as cluster:
            producer = ExecutorProducer(cluster)
            for number in range(self.messages):
                producer.send(TOPIC, Message(values[number % _DIFFERENT]), 0)
            producer.flush()

    def _measure(self, address: str, url: str, folder: str) -> list[SparkImportResult]:
        from logd.spark.importer.session import NEEDED
        from logd.spark.session import local_session

        self.tell("starting Spark")
        spark = local_session("logd bench", f"local[{self.cores}]", memory="2g", settings=NEEDED)
        try:
            results = []
            for number in range(-_WARM_UP, self.rounds):
                self.tell(f"round {number + 1} of {self.rounds}" if number >= 0 else "warming up")
                typed = self._seconds(spark, address, url, f"{folder}/typed{number}")
                untyped = self._seconds(spark, address, None, f"{folder}/untyped{number}")
                if number >= 0:
                    results.append(self._result(typed, untyped))
            return results
        finally:
            spark.stop()

    def _seconds(self, spark: Any, address: str, url: str | None, to: str) -> float:
        from logd.spark.blocking.registry import RegistryAddress
        from logd.spark.blocking.subscription import SourceSubscription
        from logd.spark.importer.run import Importer
        from logd.spark.importer.settings import ImportSettings, SchemaSettings
        from logd.spark.importer.spark_loader import SparkLoader

        settings = ImportSettings(
            subscription=SourceSubscription(topics=(TOPIC,)),
            to=to,
            cluster=ClusterSettings(brokers=address),
            schemas=None if url is None else SchemaSettings(RegistryAddress(url)),
        )
        begin = time.perf_counter()
        done = Importer(settings, SparkLoader(settings, session=spark)).run()
        took = time.perf_counter() - begin
        assert (done.messages, done.quarantined) == (self.messages, 0)
        shutil.rmtree(Path(to))
        return took

    def _result(self, typed: float, untyped: float) -> SparkImportResult:
        return SparkImportResult(
            bench="spark import",
            messages=self.messages,
            size=self.size,
            cores=self.cores,
            seconds=round(typed, 3),
            typed_rows_per_second=round(self.messages / typed),
            untyped_rows_per_second=round(self.messages / untyped),
            ratio_to_untyped=round(untyped / typed, 3),
        )


def _register(url: str) -> int:
    body = json.dumps({"schema": json.dumps(_SCHEMA)}).encode()
    request = urllib.request.Request(
        f"{url}/subjects/{TOPIC}-value/versions", body, {"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


def _payload(fastavro: Any, schema: Any, beginning: bytes, number: int, size: int) -> bytes:
    stream = BytesIO()
    stream.write(beginning)
    page = f"/page/{number}/".ljust(max(size - 60, 1), "x")
    value = {
        "user": number,
        "page": page,
        "at": 1_320_969_600_000 + number,
        "referrer": "/cart" if number % 2 else None,
    }
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()
