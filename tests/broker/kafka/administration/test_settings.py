"""Tests of logd.broker.kafka.administration.settings: settings of topics and of the broker, shown and changed."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from kafka.protocol.admin import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from twisted.logger import formatEvent

from logd.coord import paths
from logd.coord.registries.topics import encode_entry
from logd.protocol.kafka.apis import APIS
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase
from tests.log.entries import plain

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_SOURCE, STATIC_BROKER, DEFAULT = 1, 4, 5


class SettingsTestCase(KafkaTestCase):
    """A broker with topic t."""

    def setUp(self) -> None:
        """Create the topic."""
        super().setUp()
        self.create("t")

    def describe(
        self, peer: KafkaPeer, name: str = "t", kind: int = TOPIC, keys: list[str] | None = None, version: int = 3
    ) -> Any:
        """Return the result for one resource."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys
        )
        request = DescribeConfigsRequest[version](
            resources=[resource], include_synonyms=True, include_documentation=True
        )
        (result,) = self.ask(peer, request).results
        return result

    def values(self, peer: KafkaPeer, *keys: str) -> list[tuple[str, int]]:
        """Return values and sources of settings of the topic."""
        found = {each.name: (each.value, each.config_source) for each in self.describe(peer, keys=[*keys]).configs}
        return [found[key] for key in keys]

    def alter(self, peer: KafkaPeer, version: int = 0, name: str = "t", kind: int = TOPIC, **more: Any) -> Any:
        """Replace all settings; return the response's only part."""
        validate_only = more.pop("validate_only", False)
        resource = AlterConfigsRequest.AlterConfigsResource
        configs = [resource.AlterableConfig(name=key, value=value) for key, value in more.pop("configs").items()]
        request = AlterConfigsRequest[version](
            resources=[resource(resource_type=kind, resource_name=name, configs=configs)], validate_only=validate_only
        )
        (response,) = self.ask(peer, request).responses
        return response

    def increment(
        self, peer: KafkaPeer, *changes: tuple[str, int, str | None], name: str = "t", kind: int = TOPIC
    ) -> Any:
        """Change some settings; return the response's only part."""
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            resource.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        request = IncrementalAlterConfigsRequest[0](
            resources=[resource(resource_type=kind, resource_name=name, configs=configs)], validate_only=False
        )
        (response,) = self.ask(peer, request).responses
        return response


class DescribeConfigsTests(SettingsTestCase):
    """DescribeConfigs."""

    log_options = {"retention_ms": 5000}  # noqa: RUF012

    def test_every_version(self) -> None:
        """A topic without settings has the broker's, and where they come from is told."""
        peer = self.kafka()
        for version in APIS[32].versions:
            found = {each.name: each for each in self.describe(peer, version=version).configs}
            self.assertEqual(found["retention.ms"].value, "5000")
            self.assertEqual(found["cleanup.policy"].value, "delete")
            self.assertEqual(found["flush.messages"].value, str((1 << 63) - 1))
            if version == 0:
                self.assertEqual((found["retention.ms"].is_default, found["segment.ms"].is_default), (False, True))
            else:
                self.assertEqual(found["retention.ms"].config_source, STATIC_BROKER)
                self.assertEqual(found["segment.ms"].config_source, DEFAULT)
                (synonym,) = found["retention.ms"].synonyms
                self.assertEqual((synonym.name, synonym.value, synonym.source), ("log.retention.ms", "5000", 4))
            if version >= 3:
                self.assertEqual((found["retention.ms"].config_type, found["cleanup.policy"].config_type), (5, 7))
                self.assertIn("older than this", found["retention.ms"].documentation)

    def test_named_settings(self) -> None:
        """Only these are shown; names that there are not are left out."""
        found = self.describe(self.kafka(), keys=["segment.ms", "no.such"]).configs
        self.assertEqual([each.name for each in found], ["segment.ms"])
        self.assertGreater(len(self.describe(self.kafka(), keys=[]).configs), 20)  # no names are all of them, in Kafka

    def test_the_broker(self) -> None:
        """Its settings are shown by Kafka's names, and can be changed by no request."""
        peer = self.kafka()
        found = {each.name: each for each in self.describe(peer, "0", BROKER).configs}
        self.assertEqual(found["log.retention.ms"].value, "5000")
        self.assertEqual((found["broker.id"].value, found["log.dirs"].value), ("0", "/data"))
        self.assertEqual(found["auto.create.topics.enable"].value, "true")
        self.assertTrue(all(each.read_only for each in found.values()))
        self.assertEqual(self.describe(peer, "", BROKER).configs, [])
        for name, kind, code in (("1", BROKER, 42), ("0", LOGGER, 42), ("none", TOPIC, 3), ("a b", TOPIC, 17)):
            self.assertEqual(self.describe(peer, name, kind).error_code, code)
        refused = self.increment(peer, ("log.retention.ms", SET, "1"), name="0", kind=BROKER)
        self.assertEqual(refused.error_code, 42)
        self.assertIn("its file and its options", refused.error_message)

    def test_many_resources(self) -> None:
        """They are described in several turns; above a limit the client has to ask again."""
        kind = DescribeConfigsRequest.DescribeConfigsResource
        resources = [kind(resource_type=TOPIC, resource_name=f"n{number}") for number in range(2010)]
        results = self.ask(self.kafka(), DescribeConfigsRequest[3](resources=resources)).results
        self.assertEqual([result.error_code for result in results], [3] * 2000 + [42] * 10)


class IncrementalAlterConfigsTests(SettingsTestCase):
    """IncrementalAlterConfigs."""

    def test_settings_that_we_have(self) -> None:
        """They are acted on at once, and shown; removed, the broker's own count again."""
        peer = self.kafka()
        changed = self.increment(
            peer,
            ("retention.ms", SET, "1000"),
            ("max.message.bytes", SET, "2000"),
            ("flush.ms", SET, str((1 << 63) - 1)),
        )
        self.assertEqual((changed.error_code, changed.error_message), (0, None))
        log = self.log_of("t")
        self.assertEqual((log.settings.retention_ms, log.settings.batch_bytes, log.settings.flush_ms), (1000, 2000, -1))
        self.assertEqual(self.values(peer, "retention.ms", "max.message.bytes"), [("1000", 1), ("2000", 1)])
        (found,) = self.describe(peer, keys=["retention.ms"]).configs
        sources = [(each.name, each.value, each.source) for each in found.synonyms]
        self.assertEqual(sources, [("retention.ms", "1000", 1), ("log.retention.ms", "604800000", 5)])
        self.increment(peer, ("retention.ms", DELETE, None))
        self.assertEqual(self.values(peer, "retention.ms", "max.message.bytes"), [("604800000", 5), ("2000", 1)])
        self.assertTrue([each for each in self.events.events if "change topic 't' (settings" in formatEvent(each)])

    def test_settings_that_are_kept(self) -> None:
        """They are shown as they were set, also after a restart, and the topic is served as before."""
        peer = self.kafka()
        for operation, value, expected in (
            (SET, "compact", "compact"),
            (APPEND, "delete", "compact,delete"),
            (APPEND, "compact", "compact,delete"),
            (SUBTRACT, "compact", "delete"),
            (APPEND, "compact, delete,compact", "delete,compact"),
            (SUBTRACT, "compact, compact", "delete"),
        ):
            self.assertEqual(self.increment(peer, ("cleanup.policy", operation, value)).error_code, 0)
            self.assertEqual(self.values(peer, "cleanup.policy"), [(expected, 1)])
        self.increment(peer, ("preallocate", SET, "TRUE"), ("min.cleanable.dirty.ratio", SET, "0.25"))
        peer.lose()
        self.leave()
        self.open()
        peer = self.kafka()
        shown = self.values(peer, "cleanup.policy", "preallocate", "min.cleanable.dirty.ratio")
        self.assertEqual(shown, [("delete", 1), ("true", 1), ("0.25", 1)])
        self.assertIsNone(self.log_of("t").offline)

    def test_refusals(self) -> None:
        """Each names the setting, and nothing is changed."""
        peer = self.kafka()
        for change, code, word in (
            (("no.such", SET, "1"), 40, "no.such"),
            (("retention.mss", SET, "1"), 40, "did you mean retention.ms"),
            (("retention.ms", SET, "1.5"), 40, "retention.ms"),
            (("retention.ms", SET, str(1 << 70)), 40, "retention.ms"),
            (("max.message.bytes", SET, "3"), 40, "max.message.bytes"),
            (("max.message.bytes", SET, str(1 << 29)), 40, "frame.bytes"),
            (("cleanup.policy", SET, "compacted"), 40, "cleanup.policy"),
            (("cleanup.policy", SUBTRACT, "delete"), 40, "cleanup.policy"),
            (("remote.storage.enable", SET, "true"), 40, "remote.storage.enable"),
            (("min.insync.replicas", SET, "0"), 40, "min.insync.replicas"),
            (("min.cleanable.dirty.ratio", SET, "nan"), 40, "min.cleanable.dirty.ratio"),
            (("message.format.version", SET, "\x1b[2J"), 40, "message.format.version"),
            (("retention.ms", APPEND, "1"), 40, "no list"),
            (("retention.ms", SUBTRACT, "1"), 40, "no list"),
            (("retention.ms", SET, None), 42, "no value"),
            (("retention.ms", 9, "1"), 42, "operation 9"),
        ):
            response = self.increment(peer, change)
            self.assertEqual(response.error_code, code, change)
            self.assertIn(word, response.error_message)
        self.assertEqual(self.increment(peer, ("flush.ms", SET, "1"), ("flush.ms", SET, "2")).error_code, 42)
        self.assertEqual(self.increment(peer, ("flush.ms", SET, "1"), name="none").error_code, 3)
        self.assertEqual(self.increment(peer, ("flush.ms", SET, "1"), name="0", kind=LOGGER).error_code, 42)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((entry.settings, entry.kafka_settings), ({}, {}))

    def test_settings_of_a_broker(self) -> None:
        """None can be set. To remove some is done already, as kafka-reassign-partitions asks at each end."""
        peer = self.kafka()
        rate = "leader.replication.throttled.rate"
        for name, changes, code in (
            ("0", ((rate, DELETE, None), ("follower.replication.throttled.rate", DELETE, None)), 0),
            ("", ((rate, DELETE, None),), 0),
            ("1", ((rate, DELETE, None),), 42),
            ("0", ((rate, SET, "1000"),), 42),
            ("", ((rate, SET, "1000"),), 42),
            ("0", ((rate, DELETE, None), ("log.retention.ms", SET, "1")), 42),
        ):
            self.assertEqual(self.increment(peer, *changes, name=name, kind=BROKER).error_code, code, (name, changes))
        self.assertEqual(self.alter(peer, name="0", kind=BROKER, configs={rate: "1000"}).error_code, 42)

    def test_numbers_beyond_ours(self) -> None:
        """They stand for no limit where there is such a value, else for the largest."""
        peer = self.kafka()
        most = str((1 << 63) - 1)
        self.increment(peer, ("retention.ms", SET, most), ("segment.ms", SET, most), ("flush.messages", SET, most))
        settings = self.log_of("t").settings
        self.assertEqual((settings.retention_ms, settings.flush_messages), (-1, -1))
        self.assertEqual(settings.segment_ms, 100 * 365 * 86_400_000)


class CompactedTopicTests(SettingsTestCase):
    """Topics whose policy is to compact: their keys' last messages may be older than any retention."""

    log_options = {"retention_ms": 5000, "retention_bytes": 9, "segment_bytes": 1}  # noqa: RUF012

    def fill(self) -> None:
        """Produce three messages, a segment each."""
        peer = self.connect()
        for _ in range(3):
            self.produce(peer, "t", plain(b"hello"))
        peer.lose()

    def retain(self) -> int:
        """Let all segments grow old, let retention look at them, and return how many there are then."""
        self.clock.advance(6)
        self.store.expire()
        self.settle()
        return len(self.log_of("t").segment_list.starts)

    def told(self) -> int:
        """Return how often the broker's log says that the topic is kept whole."""
        return sum("topic t is kept whole" in formatEvent(each) for each in self.events.events)

    def test_everything_is_kept(self) -> None:
        """Retention by time and by size deletes nothing, also after a restart, while the settings are shown as set."""
        peer = self.kafka()
        self.increment(peer, ("cleanup.policy", SET, "compact"), ("retention.ms", SET, "1"))
        self.fill()
        before = len(self.log_of("t").segment_list.starts)
        self.assertGreaterEqual(before, 3)
        self.assertEqual((self.retain(), self.told()), (before, 1))
        shown = self.values(peer, "cleanup.policy", "retention.ms", "retention.bytes")
        self.assertEqual(shown, [("compact", 1), ("1", 1), ("9", 4)])
        peer.lose()
        self.leave()
        self.open()
        self.assertEqual((self.retain(), self.told(), self.log_of("t").first), (before, 2, 0))

    def test_other_policies(self) -> None:
        """A policy that deletes, also beside compaction, lets retention go on, and the line is written anew later."""
        peer = self.kafka()
        for number, policy in enumerate(("compact,delete", "delete", "delete, compact")):
            self.increment(peer, ("cleanup.policy", SET, "compact"))
            self.fill()
            self.assertGreater(self.retain(), 1)
            self.assertEqual(self.told(), number + 1)
            self.increment(peer, ("cleanup.policy", SET, policy))
            self.assertEqual(self.retain(), 1, policy)

    def test_settings_that_are_not_allowed_here(self) -> None:
        """A topic whose other settings this broker does not allow is kept whole all the same."""
        self.increment(self.kafka(), ("cleanup.policy", SET, "compact"), ("max.message.bytes", SET, "2000"))
        entry = self.broker.topics.get("t")
        assert entry is not None
        odd = evolve(entry, settings={"batch.bytes": 1 << 29})
        self.settle()
        writing = self.access.client.set(paths.topic("t"), encode_entry(odd))
        self.settle()
        self.successResultOf(writing)
        settings = self.log_of("t").settings
        self.assertEqual((settings.retention_ms, settings.retention_bytes), (-1, -1))
        self.assertNotEqual(settings.batch_bytes, 2000)


class AlterConfigsTests(SettingsTestCase):
    """AlterConfigs, which replaces all settings."""

    def test_every_version(self) -> None:
        """Settings that are not named go back to their defaults, except those that Kafka does not know."""
        peer = self.kafka()
        for version in APIS[33].versions:
            self.increment(peer, ("flush.ms", SET, "7"), ("cleanup.policy", SET, "compact"))
            self.increment(peer, ("message.format", SET, "0.7"))
            self.assertEqual(self.alter(peer, version, configs={"retention.ms": "9"}).error_code, 0)
            shown = self.values(peer, "retention.ms", "flush.ms", "cleanup.policy", "message.format")
            self.assertEqual(shown, [("9", 1), (str((1 << 63) - 1), 5), ("delete", 5), ("0.7", 1)])

    def test_only_validated(self) -> None:
        """Errors are found, and nothing is changed."""
        peer = self.kafka()
        for configs, code in (({"retention.ms": "9"}, 0), ({"retention.ms": "x"}, 40)):
            self.assertEqual(self.alter(peer, configs=configs, validate_only=True).error_code, code)
        self.assertEqual(self.alter(peer, name="none", configs={}, validate_only=True).error_code, 3)
        self.assertEqual(self.values(peer, "retention.ms"), [("604800000", 5)])


class LockedTests(SettingsTestCase):
    """A broker whose clients change nothing."""

    options = {"administration_requests": False}  # noqa: RUF012

    def test_changes_are_refused(self) -> None:
        """The text names the broker's setting."""
        for response in (
            self.increment(self.kafka(), ("flush.ms", SET, "1")),
            self.alter(self.kafka(), configs={"flush.ms": "1"}),
        ):
            self.assertEqual(response.error_code, 44)
            self.assertIn("administration.requests = false", response.error_message)


class KeptInTheTreeTests(SettingsTestCase):
    """Settings of Kafka in a topic's node."""

    def test_they_stand_apart(self) -> None:
        """Releases that do not know them see the native settings alone."""
        self.increment(self.kafka(), ("cleanup.policy", SET, "compact"), ("retention.ms", SET, "5"))
        (node,) = self.node()
        self.assertEqual(
            (node["settings"], node["kafka_settings"]), ({"retention.ms": 5}, {"cleanup.policy": "compact"})
        )

    def test_unknown_ones_do_no_harm(self) -> None:
        """A later release may write settings that this one does not know: they are kept, and the topic is served."""
        peer = self.kafka()
        self.increment(peer, ("cleanup.policy", SET, "compact"))
        (node,) = self.node()
        node["kafka_settings"]["later.setting"] = "x"
        self.write(node)
        self.assertEqual(self.values(peer, "cleanup.policy"), [("compact", 1)])
        self.assertEqual(self.increment(peer, ("flush.ms", SET, "5")).error_code, 0)
        (node,) = self.node()
        self.assertEqual(node["kafka_settings"], {"cleanup.policy": "compact", "later.setting": "x"})
        self.assertEqual(self.log_of("t").settings.flush_ms, 5)

    def node(self) -> list[dict[str, Any]]:
        """Return the topic's node."""
        reading = self.access.client.get(paths.topic("t"))
        self.settle()
        data, _ = self.successResultOf(reading)
        return [json.loads(data)]

    def write(self, node: dict[str, Any]) -> None:
        """Replace the topic's node."""
        writing = self.access.client.set(paths.topic("t"), json.dumps(node).encode())
        self.settle()
        self.successResultOf(writing)
