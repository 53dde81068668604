"""Tests of options, subscriptions and places: what is read, and what is refused with which words."""

from __future__ import annotations

import os
import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.start_resolution import EARLIEST, LATEST
from logd.errors import ConfigurationError
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.spark.blocking.offsets import At, parse_time, resolve
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.worker.arrow import COLUMNS
from logd.spark.worker.options import ALL_OPTIONS, CORRUPT_RECORD, read_options, sink_options


class OptionsTests(SynchronousTestCase):
    """``option(...)``."""

    def refused(self, streaming: bool = False, **options: str) -> str:
        """The words with which options are refused."""
        given = {"subscribe": "t", **{name.replace("__", "."): value for name, value in options.items()}}
        return str(self.assertRaises(ConfigurationError, read_options, given, streaming))

    def test_defaults(self) -> None:
        """A batch reads all there is, a stream what comes; the broker is that of LOGD_BROKER, or the usual one."""
        self.patch(os, "environ", {})
        options = read_options({"subscribe": "t"}, streaming=False)
        self.assertEqual((options.starting.rest, options.ending.rest), (At(EARLIEST), At(LATEST)))
        self.assertEqual(options.cluster.brokers, "127.0.0.1:6667")
        self.assertTrue(options.reading.fail_on_data_loss)
        self.assertEqual(read_options({"subscribe": "t"}, streaming=True).starting.rest, At(LATEST))
        self.patch(os, "environ", {"LOGD_BROKER": "broker:1"})
        self.assertEqual(read_options({"subscribe": "t"}, streaming=False).cluster.brokers, "broker:1")

    def test_any_case(self) -> None:
        """Names are alike in any case: Spark hands them over in lower case."""
        options = read_options({"SUBSCRIBE": "a,b", "maxbytespertrigger": "7", "failondataloss": "FALSE"}, True)
        self.assertEqual(options.subscription, SourceSubscription(topics=("a", "b")))
        self.assertEqual(options.trigger_bytes, 7)
        self.assertFalse(options.reading.fail_on_data_loss)

    def test_unknown(self) -> None:
        """A name that is not known is refused, near ones are named; so is one that belongs elsewhere."""
        self.assertIn("did you mean failOnDataLoss?", self.refused(failOnDataLos="true"))
        self.assertIn("did you mean avroSchema?", self.refused(schema='{"type": "record"}'))
        self.assertIn("known are", self.refused(zzz="1"))
        self.assertIn("'endingOffsets' is not one of a stream", self.refused(True, endingOffsets="latest"))
        self.assertIn("'compression' is not one of a batch", self.refused(compression="gzip"))

    def test_values(self) -> None:
        """A value that is not allowed is named, with what is."""
        self.assertIn("from 1 to", self.refused(minPartitions="0"))
        self.assertIn("true or false", self.refused(includeHeaders="maybe"))
        self.assertIn("earliest, latest, JSON", self.refused(startingOffsets="early"))
        self.assertIn("earliest, latest, JSON", self.refused(startingOffsets='{"t": {"0": -3}}'))
        self.assertIn("times in ms", self.refused(endingOffsetsByTimestamp='{"t": {"0": -1}}'))
        self.assertIn("HOST:PORT", self.refused(brokers="nowhere"))
        self.assertIn("exclude each other", self.refused(subscribePattern=".*"))
        self.assertIn("subscribePattern", str(self.assertRaises(ConfigurationError, read_options, {}, False)))
        self.assertRaises(ConfigurationError, sink_options, {"topic": "t", "compression": "lz4"})

    def test_places(self) -> None:
        """JSON names places partition by partition; what it leaves out begins and ends at the log's own ends."""
        text = '{"t": {"0": 4711, "1": -1, "2": -2}}'
        options = read_options({"subscribe": "t", "startingOffsets": text}, True)
        self.assertEqual([options.starting.at("t", n).position for n in range(4)], [4711, LATEST, EARLIEST, EARLIEST])
        text = '{"t": {"0": 4711, "1": -2}}'
        options = read_options({"subscribe": "t", "startingOffsets": text}, False)
        self.assertEqual([options.starting.at("t", n).position for n in range(2)], [4711, EARLIEST])
        both = {"startingOffsets": text, "startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}
        self.assertEqual(read_options({"subscribe": "t", **both}, False).starting.at("t", 0), At(time_ms=5))

    def test_batch_of_nothing(self) -> None:
        """A batch that would begin at the latest place, or end at the earliest one, is refused, as Kafka's is."""
        self.assertIn("starting offset of latest", self.refused(startingOffsets="latest"))
        self.assertIn("starting offset of latest", self.refused(startingOffsets='{"t": {"0": 5, "1": -1}}'))
        self.assertIn("ending offset of earliest", self.refused(endingOffsets="earliest"))
        self.assertIn("ending offset of earliest", self.refused(endingOffsets='{"t": {"0": -2}}'))
        self.assertEqual(read_options({"subscribe": "t", "startingOffsets": "latest"}, True).starting.rest, At(LATEST))

    def test_of_kafka(self) -> None:
        """Options of Spark's Kafka source and of Kafka's clients are answered with what is here in their place."""
        for name, words in {
            "kafka.bootstrap.servers": "the option 'brokers' names",
            "kafka.ssl.truststore.location": "TLS is set by tls",
            "kafka.max.poll.records": "none of the settings of Kafka's clients",
            "groupIdPrefix": "in no group",
            "minOffsetsPerTrigger": "maxOffsetsPerTrigger",
        }.items():
            for streaming in (False, True):
                message = self.refused(streaming, **{name: "1"})
                self.assertIn(words, message)
                self.assertNotIn("known are", message)

    def test_triggers(self) -> None:
        """A micro-batch is bounded by bytes, or by messages."""
        self.assertEqual(read_options({"subscribe": "t", "maxOffsetsPerTrigger": "9"}, True).trigger_messages, 9)
        self.assertIn("give one", self.refused(True, maxOffsetsPerTrigger="9", maxBytesPerTrigger="9"))
        self.assertIn("not one of a batch", self.refused(maxOffsetsPerTrigger="9"))

    def test_modes(self) -> None:
        """What becomes of values that do not decode is said where values are decoded, and with a mode that there is."""
        self.assertIn("PERMISSIVE, DROPMALFORMED, FAILFAST", self.refused(avroSchema="{}", mode="lenient"))
        self.assertIn("need avroSchema", self.refused(mode="PERMISSIVE"))
        self.assertIn("need avroSchema", self.refused(columnNameOfCorruptRecord="bad"))
        self.assertIn("needs mode=PERMISSIVE", self.refused(avroSchema="{}", columnNameOfCorruptRecord="bad"))
        shape = read_options({"subscribe": "t", "avroSchema": "{}", "mode": "permissive"}, False).shape
        self.assertEqual((shape.mode, shape.corrupt_column), ("PERMISSIVE", "_corrupt_record"))
        self.assertIsNone(read_options({"subscribe": "t", "avroSchema": "{}"}, False).shape.corrupt_column)

    def test_times(self) -> None:
        """ISO text is UTC unless it names a zone."""
        self.assertEqual(parse_time("2011-11-11T00:00:00"), 1320969600000)
        self.assertEqual(parse_time("2011-11-11T01:00:00.5+01:00"), 1320969600500)
        self.assertEqual(parse_time("1320969600000"), 1320969600000)
        self.assertRaises(ValueError, parse_time, "yesterday")

    def test_resolve(self) -> None:
        """A place is a position in a log; a time after all messages is the log's end."""
        log = DescribeLogResponse(0, 100, 300, 250, time_position=-1)
        self.assertEqual([resolve(At(p), log) for p in (EARLIEST, LATEST, 170)], [100, 250, 170])
        self.assertEqual(resolve(At(time_ms=5), log), 250)
        self.assertEqual(resolve(At(time_ms=5), log._replace(time_position=130)), 130)


class SubscriptionTests(SynchronousTestCase):
    """What is read."""

    def test_chosen(self) -> None:
        """A pattern is of the whole name; partitions that were assigned are those alone."""
        self.assertEqual(SourceSubscription(pattern="web.*").chosen("web-1", [1, 0]), (0, 1))
        self.assertEqual(SourceSubscription(pattern="web").chosen("web-1", [0]), ())
        self.assertEqual(SourceSubscription(topics=("a",)).chosen("b", [0]), ())
        self.assertEqual(SourceSubscription(assigned={"a": (1, 2)}).chosen("a", [0, 1]), (1,))


class DocumentationTests(SynchronousTestCase):
    """docs/spark.md."""

    def test_every_option(self) -> None:
        """The page names every option, and no default or name but those that there are."""
        page = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
        rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
        named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
        self.assertEqual(set(ALL_OPTIONS) - named, set())
        self.assertEqual(named - set(ALL_OPTIONS) - {*COLUMNS, CORRUPT_RECORD}, set())
