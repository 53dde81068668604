"""Topics of a real broker as data frames of a real Spark."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from logd.protocol.message import Message
from logd.spark.worker.arrow import source_schema
from logd.testing.processes.broker import BrokerProcess
from tests.integration.spark.imports import PATIENCE
from tests.integration.spark.rig import SparkTestCase, numbered


class BatchTests(SparkTestCase):
    """Reads by ``spark.read.format("logd")``."""

    def test_every_column_has_the_messages_field(self) -> None:
        """Values, keys, times and headers may be null; ``offset`` is what Kafka's clients see, the last position."""
        topic = self.create()
        headers = (("server", b"web1"), ("empty", None))
        self.fill(
            topic,
            [
                Message(b"plain"),
                Message(b"hello", key=b"k", timestamp=1320969600123, headers=headers),
                Message(None, key=b"gone"),
            ],
        )
        rows = self.read(topic, includeHeaders="true").collect()
        self.assertEqual([row.value for row in rows], [b"plain", b"hello", None])
        self.assertEqual([row.key for row in rows], [None, b"k", b"gone"])
        self.assertEqual({(row.topic, row.partition) for row in rows}, {(topic, 0)})
        self.assertEqual(rows[0].id, 0)
        self.assertEqual(rows[0].next_position, 4 + 5 + 5)
        self.assertEqual([row.id for row in rows[1:]], [row.next_position for row in rows[:-1]])
        self.assertEqual([row.offset for row in rows], [row.next_position - 1 for row in rows])
        self.assertIsNone(rows[0].timestamp)
        when = rows[1].timestamp
        self.assertEqual(when, datetime(2011, 11, 11, 0, 0, 0, 123000, UTC).astimezone().replace(tzinfo=None))
        self.assertEqual([tuple(header) for header in rows[1].headers], list(headers))
        self.assertEqual(rows[0].headers, [])

    def test_arrow_types_are_those_of_sparks_schema(self) -> None:
        """Spark refuses every read whose batches have other types than it derives from the schema."""
        from pyspark.sql.pandas.types import to_arrow_schema

        topic = self.create()
        for include in (False, True):
            schema = self.read(topic, includeHeaders=str(include)).schema
            self.assertEqual(to_arrow_schema(schema, timezone="UTC"), source_schema(include))
        schema = self.read(topic, includeValues="false").schema
        self.assertEqual(to_arrow_schema(schema, timezone="UTC"), source_schema(include_values=False))

    def test_messages_are_counted_without_their_values(self) -> None:
        """The rows are those with values, batches and compressed sets included."""
        topic = self.create()
        self.fill(topic, numbered(range(500)))
        self.fill(topic, numbered(range(500)), 0, "zstd")
        frame = self.read(topic, includeValues="false")
        self.assertEqual(frame.count(), 1000)
        columns = ("id", "next_position", "offset", "partition", "topic")
        self.assertEqual(frame.select(*columns).collect(), self.read(topic).select(*columns).collect())

    def test_small_ranges_give_each_message_once(self) -> None:
        """Several tasks read them; a range that ends inside a compressed set must neither repeat nor lose messages."""
        topic = self.create(3)
        for partition in range(3):
            numbers = range(partition * 10_000, partition * 10_000 + 3000)
            self.fill(topic, numbered(numbers[:1000]), partition)
            self.fill(topic, numbered(numbers[1000:2000]), partition, "zstd")
            self.fill(topic, numbered(numbers[2000:]), partition, "gzip")
        frame = self.read(topic, maxBytesPerPartition="20000", fetchBytes="4096", rowsPerBatch="1000")
        self.assertGreater(frame.rdd.getNumPartitions(), 9)
        values = sorted(int(row.value) for row in frame.select("value").collect())
        self.assertEqual(values, [p * 10_000 + n for p in range(3) for n in range(3000)])
        self.assertIn(self.read(topic, minPartitions="7").rdd.getNumPartitions(), (7, 8, 9))

    def test_a_read_may_begin_and_end_at_any_position(self) -> None:
        """Also inside a compressed set: two reads that meet at a position have every message once."""
        topic = self.create()
        self.fill(topic, numbered(range(50)))
        self.fill(topic, numbered(range(50, 150)), compression="zstd")
        rows = self.read(topic).collect()
        self.assertEqual([int(row.value) for row in rows], list(range(150)))
        for number in (0, 20, 50, 51, 100, 149):
            cut = f'{{"{topic}": {{"0": {rows[number].id}}}}}'
            before = [int(row.value) for row in self.read(topic, endingOffsets=cut).collect()]
            after = [int(row.value) for row in self.read(topic, startingOffsets=cut).collect()]
            self.assertEqual(before, list(range(number)))
            self.assertEqual(after, list(range(number, 150)))

    def test_a_read_begins_and_ends_at_a_time(self) -> None:
        """Two reads that meet at a time have every message once; a time after the end gives no rows."""
        topic = self.create()
        self.fill(topic, numbered(range(3)))
        time.sleep(0.05)
        middle = int(time.time() * 1000)
        time.sleep(0.05)
        self.fill(topic, numbered(range(3, 2000)))
        after = [int(row.value) for row in self.read(topic, startingTimestamp=str(middle)).collect()]
        before = [int(row.value) for row in self.read(topic, endingTimestamp=str(middle)).collect()]
        self.assertEqual(before + after, list(range(2000)))
        text = datetime.fromtimestamp(middle / 1000 + 3600, UTC).isoformat()
        self.assertEqual(self.read(topic, startingOffsets=text).count(), 0)

    def test_patterns_lists_and_partitions_choose_topics(self) -> None:
        """A pattern that matches no topic gives no rows, and no error."""
        names = [self.create(2, self.name(f".{letter}")) for letter in "abc"]
        for name in names:
            for partition in range(2):
                self.fill(name, [Message(f"{name}/{partition}".encode())], partition)

        def found(**options: str) -> list[str]:
            frame = self.configured(self.spark.read, options).load()
            return sorted(bytes(row.value).decode()[len(self.name()) + 1 :] for row in frame.collect())

        self.assertEqual(found(subscribePattern=self.name(r"\.[ab]")), ["a/0", "a/1", "b/0", "b/1"])
        self.assertEqual(found(subscribe=f"{names[0]}, {names[2]}"), ["a/0", "a/1", "c/0", "c/1"])
        self.assertEqual(found(assign=f'{{"{names[1]}": [1]}}'), ["b/1"])
        self.assertEqual(found(subscribePattern="nothing-like-it"), [])

    def test_mistakes_are_named_with_the_remedy(self) -> None:
        """Misspelled options, unknown topics, other columns and unreachable brokers fail before a task starts."""
        topic = self.create()
        self.assert_fails(lambda: self.read(topic, startingOfsets="latest").count(), "did you mean startingOffsets")
        self.assert_fails(lambda: self.read("no-such-topic").count(), "there is no topic 'no-such-topic'")
        self.assert_fails(lambda: self.read(topic, maxBytesPerTrigger="5").count(), "not one of a batch")
        typed = self.configured(self.spark.read.schema("user string"), {"subscribe": topic}).load()
        self.assert_fails(typed.count, "cannot change the columns of logd", "avroSchema")
        self.assertEqual(
            self.configured(self.spark.read.schema(self.read(topic).schema), {"subscribe": topic}).load().count(), 0
        )
        self.assert_fails(
            lambda: self.read(topic, brokers="127.0.0.1:1", retryTimeoutMs="300").count(), "127.0.0.1:1", "refused"
        )


class LossTests(SparkTestCase):
    """Messages that were removed before they were read."""

    def test_a_topic_made_again_fails_a_planned_read(self) -> None:
        """Its positions mean other messages now; with failOnDataLoss=false the read has no rows."""
        topic = self.create()
        self.fill(topic, numbered(range(10)))
        strict = self.read(topic).rdd
        lenient = self.read(topic, failOnDataLoss="false").rdd
        for rdd in (strict, lenient):
            self.assertEqual(rdd.getNumPartitions(), 1)  # ranges are planned now
        self.delete(topic)
        self.create()
        self.fill(topic, numbered(range(100, 120)))
        self.assert_fails(strict.collect, "created again", "failOnDataLoss")
        self.assertEqual(lenient.count(), 0)

    def test_a_start_that_retention_removed_is_an_error(self) -> None:
        """With failOnDataLoss=false it is a warning, and the rows are those that are left."""
        topic = self.create(segment_bytes=1000, retention_bytes=3000)
        for number in range(0, 500, 10):
            self.fill(topic, numbered(range(number, number + 10)))
        position = f'{{"{topic}": {{"0": 0}}}}'
        self.wait_until(lambda: self.cluster.describe(topic, 0).log_start > 0)
        self.assert_fails(lambda: self.read(topic, startingOffsets=position).count(), "not in the log")
        left = [int(row.value) for row in self.read(topic, startingOffsets=position, failOnDataLoss="false").collect()]
        self.assertTrue(left)
        self.assertEqual(left, list(range(500))[-len(left) :])

    def make_broker(self) -> BrokerProcess:
        """Return a broker whose retention runs often."""
        return self.own_broker("--set", "retention.check.ms=100")

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Poll until ``true()`` holds."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


class AvroTests(SparkTestCase):
    """Values as typed columns."""

    schema = json.dumps(
        {
            "type": "record",
            "name": "Click",
            "fields": [
                {"name": "user", "type": "string"},
                {"name": "count", "type": ["null", "long"]},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
                {"name": "tags", "type": {"type": "array", "items": "string"}},
                {"name": "more", "type": {"type": "map", "values": ["null", "double"]}},
                {
                    "name": "where",
                    "type": {"type": "record", "name": "Where", "fields": [{"name": "x", "type": "int"}]},
                },
            ],
        }
    )

    def test_avro_records_become_typed_columns(self) -> None:
        """A tombstone is null; a value that is no record fails, or is kept or dropped as the mode says."""
        import fastavro

        topic = self.create()
        record: dict[str, Any] = {"user": "ada", "count": None, "at": 1320969600123, "kind": "B", "tags": ["a", "b"]}
        record |= {"more": {"k": 1.5, "none": None}, "where": {"x": 7}}
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, json.loads(self.schema), record)
        self.fill(topic, [Message(stream.getvalue(), key=b"k"), Message(None, key=b"k")])
        frame = self.read(topic, avroSchema=self.schema)
        row, gone = frame.selectExpr(
            "value.*", "value", "unix_millis(value.at) as ms", "next_position as next"
        ).collect()
        self.assertEqual((row.user, row["count"], row.ms, row.kind), ("ada", None, 1320969600123, "B"))
        self.assertEqual((row.tags, row.more, row.where.x), (["a", "b"], {"k": 1.5, "none": None}, 7))
        self.assertIsNone(gone.value)
        self.fill(topic, [Message(b"\x02")])
        words = "does not match the Avro schema", f"topic '{topic}', partition 0, id {gone.next}"
        self.assert_fails(self.read(topic, avroSchema=self.schema).collect, *words)
        lenient = self.read(topic, avroSchema=self.schema, mode="PERMISSIVE", columnNameOfCorruptRecord="bytes")
        found = lenient.selectExpr("value.user", "bytes").collect()
        self.assertEqual([tuple(each) for each in found], [("ada", None), (None, None), (None, b"\x02")])
        self.assertEqual(self.read(topic, avroSchema=self.schema, mode="DROPMALFORMED").count(), 2)
        shared = {"avroSchema": self.schema, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "Topic"}
        self.assert_fails(lambda: self.read(topic, **shared), "the name of another column")
        self.assert_fails(lambda: self.read(topic, avroSchema='{"type": "widget"}'), "not an Avro schema")


class FailureTests(SparkTestCase):
    """A broker that goes away while Spark reads from it."""

    def make_broker(self) -> BrokerProcess:
        """Return a broker that the test may kill."""
        return self.own_broker()

    def test_tasks_wait_for_a_broker_that_restarts(self) -> None:
        """They go on behind their last message, so that each message comes once."""
        topic = self.create(2)
        count = 40_000
        for partition in range(2):
            self.fill(topic, numbered(range(partition * count, (partition + 1) * count)), partition)
        frame = self.read(topic, fetchBytes="8192", maxBytesPerPartition="1000000")
        self.assertGreater(frame.rdd.getNumPartitions(), 4)

        def restart() -> None:
            for _ in range(2):
                time.sleep(0.5)
                self.broker.kill()
                time.sleep(0.5)
                self.broker.start()

        with ThreadPoolExecutor(1) as killer:
            restarted = killer.submit(restart)
            values = frame.selectExpr("cast(cast(value as string) as int) as n").selectExpr(
                "count(*)", "sum(n)", "count(distinct n)"
            )
            try:
                found = tuple(values.first())
            finally:
                restarted.result()  # a broker that has not come back is the first failure
        self.assertEqual(found, (2 * count, sum(range(2 * count)), 2 * count))
