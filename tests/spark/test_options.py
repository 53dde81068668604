"""Tests of options, subscriptions and starting offsets: their values, and the words of refusals."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.start_resolution import EARLIEST, LATEST
from logd.errors import ConfigurationError
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.spark.blocking.offsets import At, parse_time, resolve
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.worker.arrow import COLUMNS, source_schema
from logd.spark.worker.options import ALL_OPTIONS, CORRUPT_RECORD, read_options, shape_options, sink_options


class OptionsTests(SynchronousTestCase):
    """The options of a source or sink."""

    def refused(self, streaming: bool = False, **options: str) -> str:
        """Return the words with which options are refused."""
        given = {"subscribe": "t", **{name.replace("__", "."): value for name, value in options.items()}}
        return str(self.assertRaises(ConfigurationError, read_options, given, streaming))

    def test_a_batch_reads_all_and_a_stream_what_comes(self) -> None:
        """The broker is the one in LOGD_BROKER, or the usual one."""
        self.patch(os, "environ", {})
        options = read_options({"subscribe": "t"}, streaming=False)
        self.assertEqual((options.starting.rest, options.ending.rest), (At(EARLIEST), At(LATEST)))
        self.assertEqual(options.cluster.brokers, "127.0.0.1:6667")
        self.assertTrue(options.reading.fail_on_data_loss)
        self.assertEqual(read_options({"subscribe": "t"}, streaming=True).starting.rest, At(LATEST))
        self.patch(os, "environ", {"LOGD_BROKER": "broker:1"})
        self.assertEqual(read_options({"subscribe": "t"}, streaming=False).cluster.brokers, "broker:1")

    def test_option_names_have_any_case(self) -> None:
        """Spark hands them over in lower case."""
        options = read_options({"SUBSCRIBE": "a,b", "maxbytespertrigger": "7", "failondataloss": "FALSE"}, True)
        self.assertEqual(options.subscription, SourceSubscription(topics=("a", "b")))
        self.assertEqual(options.trigger_bytes, 7)
        self.assertFalse(options.reading.fail_on_data_loss)

    def test_an_unknown_option_is_refused_with_suggestions(self) -> None:
        """An option of streams is refused for a batch, and the other way round."""
        self.assertIn("did you mean failOnDataLoss?", self.refused(failOnDataLos="true"))
        self.assertIn("did you mean avroSchema or readerSchema?", self.refused(schema='{"type": "record"}'))
        self.assertIn("known are", self.refused(zzz="1"))
        self.assertIn("'endingOffsets' is not one of a stream", self.refused(True, endingOffsets="latest"))
        self.assertIn("'compression' is not one of a batch", self.refused(compression="gzip"))

    def test_a_wrong_value_is_refused_with_the_choices(self) -> None:
        """Spark would show a wrong number of rows otherwise, or none."""
        self.assertIn("from 1 to", self.refused(minPartitions="0"))
        self.assertIn("true or false", self.refused(includeHeaders="maybe"))
        self.assertIn("earliest, latest, JSON", self.refused(startingOffsets="early"))
        self.assertIn("earliest, latest, JSON", self.refused(startingOffsets='{"t": {"0": -3}}'))
        self.assertIn("times in ms", self.refused(endingOffsetsByTimestamp='{"t": {"0": -1}}'))
        self.assertIn("times in ms", self.refused(endingOffsetsByTimestamp=f'{{"t": {{"0": {1 << 63}}}}}'))
        self.assertIn("ms since the epoch", self.refused(startingTimestamp=str(1 << 63)))
        self.assertIn("names of topics", self.refused(subscribe=" , "))
        for nothing in ("{}", '{"t": {}}'):
            self.assertIn("earliest, latest, JSON", self.refused(startingOffsets=nothing))
        self.assertIn("HOST:PORT", self.refused(brokers="nowhere"))
        self.assertIn("exclude each other", self.refused(subscribePattern=".*"))
        self.assertIn("subscribePattern", str(self.assertRaises(ConfigurationError, read_options, {}, False)))
        self.assertRaises(ConfigurationError, sink_options, {"topic": "t", "compression": "lz4"})

    def test_offsets_are_given_for_each_partition(self) -> None:
        """JSON that leaves a partition out begins and ends it at the log's own ends."""
        text = '{"t": {"0": 4711, "1": -1, "2": -2}}'
        options = read_options({"subscribe": "t", "startingOffsets": text}, True)
        self.assertEqual([options.starting.at("t", n).position for n in range(4)], [4711, LATEST, EARLIEST, EARLIEST])
        text = '{"t": {"0": 4711, "1": -2}}'
        options = read_options({"subscribe": "t", "startingOffsets": text}, False)
        self.assertEqual([options.starting.at("t", n).position for n in range(2)], [4711, EARLIEST])
        both = {"startingOffsets": text, "startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}
        self.assertEqual(read_options({"subscribe": "t", **both}, False).starting.at("t", 0), At(time_ms=5))

    def test_a_batch_of_nothing_is_refused(self) -> None:
        """A batch that begins at the latest offset or ends at the earliest has no messages, as with Kafka's source."""
        for given in ("latest", '{"t": {"0": 5, "1": -1}}'):
            self.assertIn("a batch starting at latest (-1) would read nothing", self.refused(startingOffsets=given))
        for given in ("earliest", '{"t": {"0": -2}}'):
            self.assertIn("a batch ending at earliest (-2) would read nothing", self.refused(endingOffsets=given))
        self.assertEqual(read_options({"subscribe": "t", "startingOffsets": "latest"}, True).starting.rest, At(LATEST))

    def test_an_option_of_the_kafka_source_is_answered(self) -> None:
        """The error names what stands here in its place."""
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

    def test_a_micro_batch_has_one_bound(self) -> None:
        """The bound is given in bytes or in messages."""
        self.assertEqual(read_options({"subscribe": "t", "maxOffsetsPerTrigger": "9"}, True).trigger_messages, 9)
        self.assertIn("give one", self.refused(True, maxOffsetsPerTrigger="9", maxBytesPerTrigger="9"))
        self.assertIn("not one of a batch", self.refused(maxOffsetsPerTrigger="9"))

    def test_modes_belong_to_decoded_values(self) -> None:
        """A mode without avroSchema, or one that does not exist, is refused."""
        self.assertIn("PERMISSIVE, DROPMALFORMED, FAILFAST", self.refused(avroSchema="{}", mode="lenient"))
        self.assertIn("need avroSchema", self.refused(mode="PERMISSIVE"))
        self.assertIn("need avroSchema", self.refused(columnNameOfCorruptRecord="bad"))
        self.assertIn("needs mode=PERMISSIVE", self.refused(avroSchema="{}", columnNameOfCorruptRecord="bad"))
        shape = read_options({"subscribe": "t", "avroSchema": "{}", "mode": "permissive"}, False).shape
        self.assertEqual((shape.mode, shape.corrupt_column), ("PERMISSIVE", "_corrupt_record"))
        self.assertIsNone(read_options({"subscribe": "t", "avroSchema": "{}"}, False).shape.corrupt_column)

    def test_options_of_a_registry_are_refused_unless_they_fit(self) -> None:
        """Each contradiction is an error that names both options, or what is lacking."""
        url: dict[str, Any] = {"registry": "http://r:8081"}
        self.assertIn("exclude each other", self.refused(avroSchema="{}", **url))
        self.assertIn("needs registry", self.refused(readerSchema="latest"))
        self.assertIn("needs registry", self.refused(registryTimeoutMs="5"))
        self.assertIn("allowed is latest, version:NUMBER", self.refused(readerSchema="7", **url))
        self.assertIn("write http://HOST", self.refused(registry="r:8081"))
        self.assertIn("includeValues=false excludes", self.refused(includeValues="false", **url))
        self.assertIn("needs mode=PERMISSIVE", self.refused(columnNameOfCorruptReason="why", **url))
        self.assertIn("readerSchema=id:NUMBER", self.refused(subscribe="a,b", **url))
        shape = read_options({"subscribe": "a,b", "readerSchema": "id:7", "mode": "permissive", **url}, False).shape
        self.assertEqual(shape.further_columns, (("_corrupt_record", "binary"),))
        assigned = {"assign": '{"t": [0, 1]}', "columnNameOfCorruptReason": "why", "mode": "permissive", **url}
        shape = read_options(assigned, True).shape
        assert shape.registry is not None
        self.assertEqual((shape.registry.topic, shape.registry.settings.timeout), ("t", 30))
        self.assertEqual(shape.further_columns, (("_corrupt_record", "binary"), ("why", "string")))

    def test_a_reader_without_values_has_the_other_columns(self) -> None:
        """Keys and values are left out of the schema, so none goes to Java; headers and Avro need them."""
        shape = shape_options({"includeValues": "false"})
        self.assertFalse(shape.include_values)
        self.assertTrue(shape_options({}).include_values)
        for text, expected in (("false", False), ("true", True)):
            options = read_options({"subscribe": "t", "includeValues": text}, streaming=False)
            self.assertEqual(options.reading.include_values, expected)
        names = source_schema(include_values=False).names
        self.assertEqual([name for name in source_schema().names if name not in names], ["key", "value"])
        for other in ({"includeHeaders": "true"}, {"avroSchema": '"string"'}):
            error = self.assertRaises(ConfigurationError, shape_options, {"includeValues": "false", **other})
            self.assertIn("includeValues=false excludes", str(error))

    def test_a_time_without_a_zone_is_utc(self) -> None:
        """A cluster has machines in several zones."""
        self.assertEqual(parse_time("2011-11-11T00:00:00"), 1320969600000)
        self.assertEqual(parse_time("2011-11-11T01:00:00.5+01:00"), 1320969600500)
        self.assertEqual(parse_time("1320969600000"), 1320969600000)
        self.assertEqual(parse_time("2038-01-19T05:01:59.693Z"), 2147490119693)
        self.assertRaises(ValueError, parse_time, "yesterday")

    def test_an_offset_resolves_to_a_position(self) -> None:
        """A time after all messages is the visible end."""
        log = DescribeLogResponse(0, 100, 300, 250, time_position=-1)
        self.assertEqual([resolve(At(p), log) for p in (EARLIEST, LATEST, 170)], [100, 250, 170])
        self.assertEqual(resolve(At(time_ms=5), log), 250)
        self.assertEqual(resolve(At(time_ms=5), log._replace(time_position=130)), 130)


class SubscriptionTests(SynchronousTestCase):
    """``SourceSubscription``."""

    def test_a_subscription_chooses_partitions(self) -> None:
        """A pattern is of the whole name, and assigned partitions are those alone."""
        self.assertEqual(SourceSubscription(pattern="web.*").chosen("web-1", [1, 0]), (0, 1))
        self.assertEqual(SourceSubscription(pattern="web").chosen("web-1", [0]), ())
        self.assertEqual(SourceSubscription(topics=("a",)).chosen("b", [0]), ())
        self.assertEqual(SourceSubscription(assigned={"a": (1, 2)}).chosen("a", [0, 1]), (1,))


class DocumentationTests(SynchronousTestCase):
    """docs/spark.md against the options."""

    def test_the_page_names_every_option(self) -> None:
        """An option or default on the page that does not exist is found, too."""
        page = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
        rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
        named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
        self.assertEqual(set(ALL_OPTIONS) - named, set())
        self.assertEqual(named - set(ALL_OPTIONS) - {*COLUMNS, CORRUPT_RECORD}, set())
