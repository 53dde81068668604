"""Tests of logd.spark.worker.incoming: rows of a data frame as messages."""

from __future__ import annotations

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import InvalidMessage
from logd.spark.worker.arrow import HEADERS
from logd.spark.worker.incoming import messages_of


class IncomingTests(SynchronousTestCase):
    """``messages_of``."""

    def test_headers_may_be_null(self) -> None:
        """A null in the place of one header makes no message, and the error names the topic."""
        rows = [None, [], [{"key": "a", "value": None}]]
        columns = {"value": pa.array([b"x"] * 3), "headers": pa.array(rows, HEADERS)}
        found = [message.headers for _, _, message in messages_of(pa.RecordBatch.from_pydict(columns), "t")]
        self.assertEqual(found, [(), (), (("a", None),)])
        columns = {"value": pa.array([b"x"]), "headers": pa.array([[None]], HEADERS)}
        with self.assertRaisesRegex(InvalidMessage, "a row for topic 't' makes no message: a header's name"):
            list(messages_of(pa.RecordBatch.from_pydict(columns), "t"))
