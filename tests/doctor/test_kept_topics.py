"""Tests of logd.doctor.kept_topics: topics that are kept whole, and their bytes."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from logd.doctor.disks import Room
from logd.doctor.kept_topics import examine_kept_topics, measure_topics
from logd.doctor.losses import ClusterContents
from logd.doctor.observation import Level
from logd.log.disk.names import segment_name
from logd.topic import TopicEntry

GIB = 1 << 30
COMPACTED = {"cleanup.policy": "compact"}
TOPICS = {
    "offsets": TopicEntry("u1", {0: (1,), 1: (1,)}, kafka_settings=COMPACTED),
    "_schemas": TopicEntry("u2", {0: (1,)}, kafka_settings=COMPACTED),
    "both": TopicEntry("u3", {0: (1,)}, kafka_settings={"cleanup.policy": "compact,delete"}),
    "clicks": TopicEntry("u4", {0: (1,)}),
}
CLUSTER = ClusterContents(topics=TOPICS)
ROOM = Room(90 * GIB, 200 * GIB)


class KeptTopicsTests(SynchronousTestCase):
    """``examine_kept_topics``."""

    def test_large_ones_are_a_warning(self) -> None:
        """With their bytes, the largest first, and what can be done; topics that retention shortens are not named."""
        (found,) = examine_kept_topics(CLUSTER, {"_schemas": 2048, "offsets": 10 * GIB}, ROOM)
        self.assertEqual((found.area, found.level, found.subject), ("disks", Level.WARNING, "2 topics"))
        self.assertIn("offsets 10.0 GiB, _schemas 2.0 KiB", found.text)
        self.assertNotIn("both", found.text)
        self.assertIn("compact,delete", found.remedy)

    def test_small_ones_are_a_note(self) -> None:
        """Those of schema registries and of Kafka Connect mostly stay small: no reason to wake anybody."""
        (found,) = examine_kept_topics(CLUSTER, {"_schemas": 2048, "offsets": 9 * GIB}, ROOM)
        self.assertEqual(found.level, Level.NOTE)

    def test_the_bytes_may_be_unknown(self) -> None:
        """Without a data directory, or the room of its file system."""
        (found,) = examine_kept_topics(CLUSTER, None, None)
        self.assertEqual(found.level, Level.NOTE)
        self.assertIn("(_schemas, offsets)", found.text)
        (found,) = examine_kept_topics(CLUSTER, {"_schemas": 0, "offsets": 9 * GIB}, None)
        self.assertIn("offsets 9.0 GiB", found.text)

    def test_many_are_not_all_named(self) -> None:
        """A line stays one that can be read."""
        topics = {f"t{number}": TopicEntry("u", {0: (1,)}, kafka_settings=COMPACTED) for number in range(9)}
        (found,) = examine_kept_topics(ClusterContents(topics=topics), {}, ROOM)
        self.assertEqual(found.subject, "9 topics")
        self.assertIn("t4 0 B, ...", found.text)

    def test_none(self) -> None:
        """Then there is nothing to say."""
        self.assertEqual(list(examine_kept_topics(ClusterContents(topics={"clicks": TOPICS["clicks"]}), {}, ROOM)), [])


class MeasureTests(SynchronousTestCase):
    """``measure_topics``."""

    def test_segments_of_the_stored_partitions(self) -> None:
        """Those of other topics and other files are left out, and partitions that are not here."""
        data = self.mktemp()
        for folder, name, size in (
            ("offsets-0", segment_name(0), 20_000),
            ("offsets-0", segment_name(20_000), 5_000),
            ("offsets-0", "notes.txt", 90_000),
            ("clicks-0", segment_name(0), 40_000),
        ):
            os.makedirs(f"{data}/{folder}", exist_ok=True)
            with open(f"{data}/{folder}/{name}", "wb") as file:
                file.write(os.urandom(size))
        found = measure_topics(data, {name: TOPICS[name] for name in ("offsets", "_schemas")})
        self.assertEqual(found["_schemas"], 0)
        self.assertGreaterEqual(found["offsets"], 25_000)
        self.assertLess(found["offsets"], 60_000)
