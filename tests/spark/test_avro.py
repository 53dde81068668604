"""Tests of Avro values that are not what their schema says."""

from __future__ import annotations

import io
from importlib.util import find_spec

from twisted.trial.unittest import SynchronousTestCase


class AvroTests(SynchronousTestCase):
    """``AvroValues.decode``."""

    def setUp(self) -> None:
        """Or skip."""
        if find_spec("fastavro") is None or find_spec("pyarrow") is None:
            self.skipTest("fastavro or pyarrow is not installed")

    def test_wrong(self) -> None:
        """Cut short, too long, or outside its type: an error of ours that says so; what is right is read."""
        import fastavro

        from logd.spark.avro import AvroValues, UndecodableValue

        values = AvroValues('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}')
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, {"type": "long"}, 1 << 40)
        for value, words in ((b"", "not of the Avro schema"), (b"\x02\x02", "goes on"), (stream.getvalue(), "fit its")):
            with self.assertRaisesRegex(UndecodableValue, words):
                values.decode([value])
        self.assertEqual(values.decode([b"\x02", None]).to_pylist(), [{"n": 1}, None])
