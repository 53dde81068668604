"""Data frames and streams of a real Spark into topics of a real broker."""

from __future__ import annotations

from typing import Any

from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from tests.integration.spark.imports import PATIENCE
from tests.integration.spark.rig import SparkTestCase, numbered, shared_folder


class SinkTests(SparkTestCase):
    """Writes by ``df.write.format("logd")``."""

    def write(self, frame: Any, **options: str) -> None:
        """Append a data frame."""
        self.configured(frame.write, options).mode("append").save()

    def test_every_column_arrives_as_its_field(self) -> None:
        """A row without a partition goes to its key's, the same one as with every other client of logd."""
        topic = self.create(4)
        rows = [
            (b"plain", None, 3, None, None),
            (b"keyed", b"k", None, 1_320_969_600.123, [("server", b"web1"), ("empty", None)]),
            (None, b"gone", None, None, []),
        ]
        schema = "value binary, key binary, partition int, at double, headers array<struct<key:string,value:binary>>"
        frame = self.spark.createDataFrame(rows, schema).selectExpr(
            "value", "key", "partition", "timestamp_micros(cast(at * 1000000 as bigint)) as timestamp", "headers"
        )
        self.write(frame, topic=topic)
        found = {bytes(row.key or b"plain"): row for row in self.read(topic, includeHeaders="true").collect()}
        self.assertEqual(set(found), {b"plain", b"k", b"gone"})
        self.assertEqual((found[b"plain"].value, found[b"plain"].partition), (b"plain", 3))
        self.assertEqual(found[b"k"].partition, partition_of_key(b"k", 4))
        self.assertEqual(found[b"k"].timestamp.timestamp(), 1_320_969_600.123)
        self.assertEqual([tuple(pair) for pair in found[b"k"].headers], rows[1][4])
        self.assertIsNone(found[b"gone"].value)
        self.assertEqual(found[b"gone"].partition, partition_of_key(b"gone", 4))

    def test_rows_of_a_task_stay_in_order(self) -> None:
        """20,000 compressed rows of two tasks go to two topics, which the rows name."""
        names = [self.create(2, self.name(f".{letter}")) for letter in "ab"]
        frame = self.spark.range(0, 20_000, numPartitions=2).selectExpr(
            "cast(id as string) as value",
            f"if(id % 2 = 0, '{names[0]}', '{names[1]}') as topic",
            "cast(id div 10000 as int) as partition",
        )
        self.write(frame, compression="zstd", batchBytes="20000")
        for odd, name in enumerate(names):
            rows = self.read(name).select("partition", "offset", "value").orderBy("partition", "offset").collect()
            self.assertEqual([int(row.value) for row in rows], list(range(odd, 20_000, 2)))
            self.assertGreater(rows[1].offset, rows[0].offset)

    def test_mistakes_are_named_before_the_first_row(self) -> None:
        """Wrong columns and options are; a row that cannot be written fails the job with the reason."""
        topic = self.create()
        frame = self.spark.range(1).selectExpr("cast(id as string) as value")
        self.assert_fails(lambda: self.write(frame.withColumn("user", frame.value), topic=topic), "column 'user'")
        self.assert_fails(lambda: self.write(self.spark.range(1).toDF("n"), topic=topic), "column 'n'")
        self.assert_fails(lambda: self.write(frame), "option 'topic'")
        self.assert_fails(lambda: self.write(frame, topic=topic, acks="1"), "option 'acks'")
        self.assert_fails(
            lambda: self.configured(frame.write, {"topic": topic}).mode("overwrite").save(), "cannot be overwritten"
        )
        large = self.spark.range(1).selectExpr("repeat('x', 2000000) as value")
        self.assert_fails(lambda: self.write(large, topic=topic), "not delivered", "limit")
        elsewhere = frame.selectExpr("value", "7 as partition")
        self.assert_fails(lambda: self.write(elsewhere, topic=topic), "names partition 7")
        self.assertEqual(self.read(topic).count(), 0)

    def test_a_copied_topic_has_the_same_messages(self) -> None:
        """A data frame that was read has the columns that a write takes, so ids are the same too."""
        source, target = self.create(2, self.name(".from")), self.create(2, self.name(".to"))
        for partition in range(2):
            self.fill(source, [*numbered(range(100)), Message(b"x", key=b"k", timestamp=5)], partition)
        frame = self.read(source, includeHeaders="true").drop("topic")
        self.write(frame, topic=target)
        columns = ("key", "value", "partition", "offset", "id", "next_position", "timestamp")
        self.assertEqual(
            sorted(map(repr, self.read(source).select(*columns).collect())),
            sorted(map(repr, self.read(target).select(*columns).collect())),
        )

    def test_a_stream_writes_only_new_messages(self) -> None:
        """It goes from topic to topic; its second run goes on at the checkpoint."""
        source, target = self.create(1, self.name(".from")), self.name(".to")
        for begin in (0, 100):
            self.fill(source, numbered(range(begin, begin + 100)))
            frame = self.configured(self.spark.readStream, {"subscribe": source, "startingOffsets": "earliest"}).load()
            query = (
                self.configured(frame.select("value").writeStream, {"topic": target})
                .option("checkpointLocation", f"{shared_folder()}/{self.name()}")
                .trigger(availableNow=True)
                .start()
            )
            self.assertTrue(query.awaitTermination(PATIENCE))
            self.assertIsNone(query.exception())
        values = [int(row.value) for row in self.read(target).orderBy("offset").collect()]
        self.assertEqual(values, list(range(200)))
