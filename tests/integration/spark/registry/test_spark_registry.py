"""Messages of a schema registry in Spark, with a real registry, broker and session."""

from __future__ import annotations

import json
from typing import Any

from attrs import define

from logd.protocol.message import Message
from logd.testing.processes.schema_registry import SchemaRegistryProcess
from tests.integration.schema_registry.rig import ask
from tests.integration.spark.rig import SparkTestCase, shared_folder
from tests.spark.registries import framed, record


@define(eq=False)
class Subject:
    """The subject of a topic, to which a test adds versions."""

    url: str
    topic: str

    def register(self, schema: str) -> int:
        """Register a schema; return its id."""
        status, answer = ask(self.url, f"/subjects/{self.topic}-value/versions", {"schema": schema})
        assert status == 200, answer
        return int(answer["id"])


class RegistryTests(SparkTestCase):
    """``option("registry", URL)``."""

    def setUp(self) -> None:
        """Start a registry over the broker's tree."""
        super().setUp()
        self.schemas = SchemaRegistryProcess(self.broker.coordination, f"{shared_folder()}/{self.name()}.log").start()
        self.addCleanup(self.schemas.stop)
        self.topic = self.create()
        self.subject = Subject(self.schemas.url, self.topic)
        self.old, self.new = record("x"), record("x", "y=5")
        self.first = self.subject.register(self.old)
        self.fill(self.topic, [Message(framed(self.first, self.old, {"x": n})) for n in range(3)])

    def typed(self, **options: str) -> Any:
        """Return the topic's data frame with a registry."""
        return self.read(self.topic, registry=self.schemas.url, **options)

    def rows(self, frame: Any) -> list[Any]:
        """Return the values."""
        return [None if row.value is None else tuple(row.value) for row in frame.select("value").collect()]

    def test_messages_of_all_versions_have_the_columns_of_the_latest(self) -> None:
        """Values that cannot be read follow the mode, with the reason; a data frame keeps its schema."""
        before = self.typed(mode="DROPMALFORMED")
        second = self.subject.register(self.new)
        bad = [b"no zero byte", framed(second, self.new, {"x": 7, "y": 8})[:-1], b"\0\0\0\x27\x0f\x02"]
        good = framed(second, self.new, {"x": 3, "y": 4})
        self.fill(self.topic, [Message(good), *map(Message, bad), Message(None, key=b"k")])
        self.assert_fails(self.typed().collect, "begins with 0x6e", f"topic '{self.topic}', partition 0", "PERMISSIVE")
        expected: list[Any] = [(0, 5), (1, 5), (2, 5), (3, 4)]
        self.assertEqual(self.rows(self.typed(mode="DROPMALFORMED")), [*expected, None])
        frame = self.typed(mode="PERMISSIVE", columnNameOfCorruptReason="why")
        self.assertEqual(self.rows(frame), [*expected, None, None, None, None])
        wrong = frame.where("why IS NOT NULL").select("_corrupt_record", "why").collect()
        self.assertEqual([row["_corrupt_record"] for row in wrong], bad)
        for row, words in zip(wrong, ("begins with", "cannot be read by schema", "9999 does not exist"), strict=True):
            self.assertIn(words, row.why)
        self.assertEqual(before.schema["value"].dataType.names, ["x"])
        self.assertEqual(self.rows(before), [(0,), (1,), (2,), (3,), None])
        for wanted in ("version:1", f"id:{self.first}", self.old):
            self.assertEqual(self.typed(readerSchema=wanted).schema["value"].dataType.names, ["x"])

    def test_executors_need_no_registry_for_the_versions_of_the_subject(self) -> None:
        """The driver sends them. For another id the task asks, and fails if nobody answers, in every mode."""
        other = Subject(self.schemas.url, "another").register(record("x", "z=1"))
        frame = self.typed(mode="DROPMALFORMED")
        later = self.typed(mode="DROPMALFORMED", registryTimeoutMs="5000")
        planned = frame.rdd  # ranges and schemas are settled with its partitions
        self.assertEqual(planned.getNumPartitions(), 1)
        self.schemas.stop()
        self.assertEqual([row.value.x for row in planned.collect()], [0, 1, 2])
        self.fill(self.topic, [Message(framed(other, record("x", "z=1"), {"x": 3, "z": 1}))])
        self.assert_fails(later.collect, self.schemas.url, "does not answer", "Start the registry")
        self.schemas.start()
        self.assertEqual(self.rows(self.typed()), [(0,), (1,), (2,), (3,)])

    def test_a_stream_meets_a_schema_that_is_registered_later(self) -> None:
        """It keeps its columns, and each message comes once over a restart of the query."""
        checkpoint = f"{shared_folder()}/{self.name()}"

        def take() -> list[Any]:
            found: list[Any] = []
            frame = self.configured(
                self.spark.readStream,
                {"subscribe": self.topic, "startingOffsets": "earliest", "registry": self.schemas.url},
            ).load()
            query = (
                frame.writeStream.foreachBatch(lambda batch, _: found.extend(self.rows(batch)))
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            return found

        self.assertEqual(take(), [(0,), (1,), (2,)])
        second = self.subject.register(self.new)
        self.fill(self.topic, [Message(framed(second, self.new, {"x": 3, "y": 4}))])
        self.assertEqual(take(), [(3, 4)])

    def test_a_topic_without_a_schema_is_refused_at_once(self) -> None:
        """The error names the subject, the registry and the remedy; so does one for what no column can hold."""
        other = self.create(topic=self.name(".other"))
        frame = lambda: self.read(other, registry=self.schemas.url)  # noqa: E731
        self.assert_fails(frame, f"subject '{other}-value'", self.schemas.url, "register one")
        tree = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
        Subject(self.schemas.url, other).register(json.dumps(tree))
        self.assert_fails(frame, "value.left contains Tree again", "without that field")
