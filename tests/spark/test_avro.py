"""Tests of Avro values that do not fit their schema, in each mode of decoding."""

from __future__ import annotations

import io
from importlib.util import find_spec

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import MissingPackage
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.optional_packages import needing
from logd.spark.blocking.ranges import IdRange
from logd.spark.worker import tasks
from logd.spark.worker.malformed import UndecodableValue
from logd.spark.worker.options import MODES, read_options
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'


class AvroTestCase(SynchronousTestCase):
    """Values of one int, of which three are wrong, each in its own way."""

    def setUp(self) -> None:
        """Make the wrong values; skip without fastavro and pyarrow."""
        if find_spec("fastavro") is None or find_spec("pyarrow") is None:
            self.skipTest("fastavro or pyarrow is not installed")
        import fastavro

        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, {"type": "long"}, 1 << 40)
        self.wrong = {
            b"": "does not match the Avro schema",
            b"\x02\x02": "has bytes after",
            stream.getvalue(): "does not fit its",
        }


class AvroTests(AvroTestCase):
    """``AvroValues.decode``."""

    def test_a_wrong_value_is_named_with_its_reason(self) -> None:
        """The bytes may be cut short, too long, or outside the type; the sound ones around it are decoded."""
        from logd.spark.worker.avro import AvroValues

        values = AvroValues(SCHEMA)
        for value, words in self.wrong.items():
            array, wrong = values.decode([b"\x02", value, None, b"\x04"])
            self.assertEqual(array.to_pylist(), [{"n": 1}, None, None, {"n": 2}])
            self.assertEqual(list(wrong), [1])
            self.assertIn(words, wrong[1])
        array, wrong = values.decode([*self.wrong, b"\x02"])
        self.assertEqual((array.to_pylist(), list(wrong)), ([None, None, None, {"n": 1}], [0, 1, 2]))
        self.assertEqual(values.decode([b"\x02", None]).wrong, {})


class ModeTests(AvroTestCase):
    """Modes for values that do not decode."""

    def read(self, messages: list[Message], **options: str) -> pa.Table:
        """Return the rows that a task makes of a log of these messages."""
        log = FakeLog(encode_set(messages))
        broker = FakeBroker({"t": FakeTopic("u", [FakeLog(), log])})
        self.patch(tasks, "BlockingCluster", lambda settings: broker.cluster())
        given = read_options({"subscribe": "t", "avroSchema": SCHEMA, "rowsPerBatch": "2", **options}, streaming=False)
        batches = list(tasks.read_batches(given, IdRange("t", "u", 1, 0, log.end)))
        return pa.Table.from_batches(batches)

    def messages(self) -> list[Message]:
        """Return sound messages around each wrong one, and a tombstone."""
        found = [Message(b"\x02", timestamp=5)]
        for value in self.wrong:
            found += [Message(value, key=b"k"), Message(b"\x04")]
        return [*found, Message(None, key=b"k")]

    def test_a_wrong_value_fails_the_task_by_default(self) -> None:
        """The error names the message and the modes that would go on."""
        second = len(encode_set(self.messages()[:1]))
        with self.assertRaisesRegex(UndecodableValue, f"topic 't', partition 1, id {second}: .*mode=PERMISSIVE"):
            self.read(self.messages())

    def test_a_wrong_value_can_become_null(self) -> None:
        """The bytes are in a column of their own; a tombstone is null without them."""
        with self.assertLogs("logd.spark", "WARNING") as logged:
            found = self.read(self.messages(), mode="permissive").to_pydict()
        expected: list[bytes | None] = [None for _ in self.messages()]
        expected[1::2] = [*self.wrong, None]
        self.assertEqual(found["_corrupt_record"], expected)
        self.assertEqual([None if v is None else v["n"] for v in found["value"]], [1, None, 2, None, 2, None, 2, None])
        self.assertIn(
            "read as null: 3 values that do not decode; the first: topic 't', partition 1, id", logged.output[0]
        )
        self.assertEqual(found["timestampType"], [0, *[-1] * 7])
        named = self.read(self.messages(), mode="PERMISSIVE", columnNameOfCorruptRecord="bad bytes")
        self.assertEqual(named.schema.names[-1], "bad bytes")

    def test_a_row_with_a_wrong_value_can_be_dropped(self) -> None:
        """A log line says how many were."""
        with self.assertLogs("logd.spark", "WARNING") as logged:
            found = self.read(self.messages(), mode="DROPMALFORMED").to_pydict()
        self.assertEqual([None if v is None else v["n"] for v in found["value"]], [1, 2, 2, 2, None])
        self.assertEqual(found["key"], [None, None, None, None, b"k"])
        self.assertIn("left out: 3 values that do not decode; the first", logged.output[0])

    def test_sound_values_are_the_same_in_each_mode(self) -> None:
        """There is no warning, either."""
        for mode in MODES:
            with self.assertNoLogs("logd.spark", "WARNING"):
                found = self.read([Message(b"\x02")] * 5, mode=mode).to_pydict()
            self.assertEqual(found["value"], [{"n": 1}] * 5)


class MissingTests(SynchronousTestCase):
    """Packages that are not installed."""

    def test_a_missing_package_is_named_with_its_use(self) -> None:
        """The interpreter is named as well: a cluster may have several."""
        words = "the option avroSchema needs the package no_such_package.*python"
        with self.assertRaisesRegex(MissingPackage, words), needing("no_such_package", "the option avroSchema"):
            import no_such_package  # type: ignore[import-not-found]  # noqa: F401
        extra = r"install it there \(pip install 'fastavro>=1.9'\), on every machine"
        with self.assertRaisesRegex(MissingPackage, extra), needing("fastavro", "the option avroSchema"):
            raise ModuleNotFoundError("No module named 'fastavro'", name="fastavro")
