"""Topics of a real broker as streams of a real Spark: batches, restarts, new topics, kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tests.integration.spark.rig import SparkTestCase, numbered, shared_folder

#: The longest wait for a stream, in seconds.
_PATIENCE = 180


class StreamTestCase(SparkTestCase):
    """Streams that write values into a folder."""

    def setUp(self) -> None:
        """Name an output folder and a checkpoint for this test."""
        super().setUp()
        self.queries: list[Any] = []
        self.output = f"{shared_folder()}/{self.name()}.out"
        self.checkpoint = f"{shared_folder()}/{self.name()}.checkpoint"

    def start(self, trigger: dict[str, Any] | None = None, **options: str) -> Any:
        """Start a query on the source with these options; by default it takes what is available now."""
        frame = self.configured(self.spark.readStream, options).load()
        writer = frame.selectExpr("cast(value as string) as value", "topic", "partition", "offset").writeStream
        query = (
            writer.format("json")
            .option("path", self.output)
            .option("checkpointLocation", self.checkpoint)
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        self.addCleanup(query.stop)
        self.queries.append(query)
        return query

    def run_now(self, **options: str) -> Any:
        """Run a query over the available messages to its end, and return it. Raises the query's error."""
        query = self.start(None, **options)
        self.assertTrue(query.awaitTermination(_PATIENCE))
        if query.exception() is not None:
            raise query.exception()
        return query

    def found(self) -> list[int]:
        """Return the numbers in the output, sorted: of the files that the sink's log names, as its readers do."""
        logs = list(Path(self.output, "_spark_metadata").glob("[0-9]*"))
        entries = {line for log in logs for line in log.read_text().splitlines() if line.startswith("{")}
        paths = {unquote(urlparse(json.loads(entry)["path"]).path) for entry in entries}
        return sorted(int(json.loads(line)["value"]) for path in paths for line in Path(path).read_text().splitlines())

    def wait_for(self, true: Callable[[], bool]) -> None:
        """Poll until ``true()`` holds. Raises the error of a query that has failed."""
        deadline = time.monotonic() + _PATIENCE
        while not true():
            for query in self.queries:
                if query.exception() is not None:
                    raise query.exception()
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


class StreamTests(StreamTestCase):
    """Streams by ``spark.readStream.format("logd")``."""

    def test_each_run_takes_only_new_messages(self) -> None:
        """A query with availableNow can be run by cron: its checkpoint holds how far the last run came."""
        topic = self.create(2)
        self.fill(topic, numbered(range(100)), 0)
        self.fill(topic, numbered(range(1000, 1050)), 1)
        self.run_now(subscribe=topic, startingOffsets="earliest")
        self.assertEqual(self.found(), [*range(100), *range(1000, 1050)])
        self.run_now(subscribe=topic, startingOffsets="earliest")
        self.fill(topic, numbered(range(100, 120)), 0)
        self.run_now(subscribe=topic, startingOffsets="earliest")
        self.assertEqual(self.found(), [*range(120), *range(1000, 1050)])

    def test_no_batch_exceeds_its_bytes(self) -> None:
        """maxBytesPerTrigger counts over all partitions; batches use it up except for less than an entry in each."""
        topic = self.create(3)
        budget = 10_000
        for partition in range(3):
            self.fill(topic, numbered(range(partition * 1000, partition * 1000 + 100 * (partition + 1))), partition)
        query = self.run_now(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger=str(budget))
        expected = [p * 1000 + n for p in range(3) for n in range(100 * (p + 1))]
        self.assertEqual(self.found(), expected)
        sizes = self.batch_sizes()
        self.assertEqual(sum(sizes), len(expected) * 109)
        self.assertLessEqual(max(sizes), budget)
        self.assertGreater(min(sizes[:-1]), budget - 3 * 109)
        self.assertEqual(query.recentProgress[0]["sources"][0]["numInputRows"], sizes[0] // 109)

    def test_a_tiny_budget_takes_one_entry_at_a_time(self) -> None:
        """A budget below the size of every entry must not stop the stream."""
        topic = self.create(2)
        self.fill(topic, numbered(range(3)), 0)
        self.fill(topic, numbered(range(3, 6)), 1)
        self.run_now(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="10")
        self.assertEqual(self.found(), list(range(6)))
        self.assertEqual(self.batch_sizes(), [109] * 6)

    def test_no_batch_exceeds_its_messages(self) -> None:
        """maxOffsetsPerTrigger is the option that users know from Kafka's source; here messages have one size."""
        topic = self.create()
        self.fill(topic, numbered(range(60)), 0)
        self.run_now(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="25")
        self.assertEqual(self.found(), list(range(60)))
        self.assertEqual(self.batch_sizes(), [25 * 109, 25 * 109, 10 * 109])

    def test_a_new_topic_is_read_from_its_beginning(self) -> None:
        """It matches the pattern of a running stream, whose startingOffsets=latest is for earlier topics."""
        first = self.create(1, self.name(".1"))
        self.fill(first, numbered(range(5)))
        pattern = {"subscribePattern": self.name(r"\.\d"), "startingOffsets": "latest"}
        query = self.start({"processingTime": "20 milliseconds"}, **pattern)
        self.wait_for(lambda: query.lastProgress is not None)
        self.fill(first, numbered(range(5, 10)))
        second = self.create(2, self.name(".2"))
        self.fill(second, numbered(range(10, 20)), 1)
        self.wait_for(lambda: len(self.found()) == 15)
        query.stop()
        self.assertEqual(self.found(), list(range(5, 20)))

    def test_a_topic_made_again_fails_a_stream(self) -> None:
        """With failOnDataLoss=false it goes on with the messages of the new topic."""
        topic = self.create()
        self.fill(topic, numbered(range(10)))
        self.run_now(subscribe=topic, startingOffsets="earliest")
        self.delete(topic)
        self.create()
        self.fill(topic, numbered(range(100, 120)))
        self.assert_fails(lambda: self.run_now(subscribe=topic), "created again", "failOnDataLoss")
        self.run_now(subscribe=topic, failOnDataLoss="false")
        self.assertEqual(self.found(), [*range(10), *range(100, 120)])

    def test_a_stream_waits_for_its_broker(self) -> None:
        """A restart of the broker must not end a query that may run for months."""
        self.use_own_broker()
        topic = self.create()
        self.fill(topic, numbered(range(10)))
        query = self.start({"processingTime": "20 milliseconds"}, subscribe=topic, startingOffsets="earliest")
        self.wait_for(lambda: len(self.found()) == 10)
        self.broker.kill()
        time.sleep(0.3)
        self.broker.start()
        self.fill(topic, numbered(range(10, 30)))
        self.wait_for(lambda: len(self.found()) == 30)
        query.stop()
        self.assertEqual(self.found(), list(range(30)))

    def test_a_new_topics_missing_beginning_is_no_loss(self) -> None:
        """Retention removed it before the stream knew the topic. A batch that is run again begins where it did
        before, and fails when that beginning was removed since."""
        self.use_own_broker("--set", "retention.check.ms=50")
        first = self.create(1, self.name(".1"))
        self.fill(first, numbered(range(5)))
        pattern = {"subscribePattern": self.name(r"\.\d"), "startingOffsets": "earliest"}
        self.run_now(**pattern)
        second = self.create(1, self.name(".2"), segment_bytes=1000, retention_bytes=2000)
        for number in range(100, 200, 10):
            self.fill(second, numbered(range(number, number + 10)))
        self.wait_for(lambda: self.is_kept(second, 2000))
        self.run_now(**pattern)
        left = [number for number in self.found() if number >= 100]
        self.assertTrue(0 < len(left) < 100)
        self.assertEqual(self.found(), [*range(5), *range(200 - len(left), 200)])
        began = json.loads(self.offset_lines()[-1])["topics"][second]["began"]["0"]
        self.assertEqual(began, (100 - len(left)) * 109)
        for folder in (f"{self.checkpoint}/commits", f"{self.output}/_spark_metadata"):
            Path(folder, "1").unlink()
            Path(folder, ".1.crc").unlink()
        self.assert_fails(lambda: self.again_when_removed(second, began, pattern), "is lost", f"messages from {began}")

    def test_the_first_batch_is_repeated_from_where_it_began(self) -> None:
        """A query that is killed in it has stored only the batch's end, and "latest" is further on now."""
        topic = self.create()
        self.fill(topic, numbered(range(100)))
        self.run_now(subscribe=topic, startingOffsets="earliest")
        for folder in (f"{self.checkpoint}/commits", f"{self.output}/_spark_metadata"):
            for each in Path(folder).iterdir():
                each.unlink()
        self.assertEqual(self.found(), [])
        self.fill(topic, numbered(range(100, 110)))
        self.run_now(subscribe=topic, startingOffsets="latest")
        self.assertEqual(self.found(), list(range(110)))

    def is_kept(self, topic: str, retention_bytes: int) -> bool:
        """Return True once retention has removed messages of a topic, and all that it may: nothing moves any more."""
        found = self.cluster.describe(topic, 0)
        return found.log_start > 0 and found.visible_end - found.segments[1].start < retention_bytes

    def again_when_removed(self, topic: str, began: int, pattern: dict[str, str]) -> None:
        """Run the last batch again once retention has removed its first messages."""
        while self.cluster.describe(topic, 0).log_start <= began:
            self.fill(topic, numbered(range(200, 210)))
        self.run_now(**pattern)

    def batch_sizes(self) -> list[int]:
        """Return the bytes of log in each batch, by the offsets in the checkpoint."""
        positions = [{}] + [json.loads(line) for line in self.offset_lines()]
        totals = [
            sum(sum(topic["partitions"].values()) for topic in each.get("topics", {}).values()) for each in positions
        ]
        return [after - before for before, after in pairwise(totals)]

    def offset_lines(self) -> list[str]:
        """Return the offsets of each batch as Spark stored them."""
        folder = Path(self.checkpoint, "offsets")
        names = sorted((name for name in os.listdir(folder) if name.isdigit()), key=int)
        return [(folder / name).read_text().splitlines()[-1] for name in names]


class KillTests(StreamTestCase):
    """A query whose whole process is killed."""

    def test_a_killed_query_writes_each_message_once(self) -> None:
        """Driver and workers are killed between two commits; the next run must repeat the open batch exactly."""
        topic = self.create(2)
        count = 3000
        self.fill(topic, numbered(range(count)), 0)
        self.fill(topic, numbered(range(count, 2 * count)), 1)
        program = [sys.executable, "-m", "tests.integration.spark.query", self.broker.address, topic]
        command = [*program, self.output, self.checkpoint]
        committed = Path(self.checkpoint, "commits")
        process = subprocess.Popen(command, start_new_session=True, cwd=Path(__file__).parents[3])
        try:
            self.wait_for(lambda: len(list(committed.glob("[0-9]*"))) >= 3)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.assertLess(len(self.found()), 2 * count)
        self.run_now(subscribe=topic, startingOffsets="earliest")
        counts = Counter(self.found())
        self.assertEqual(len(counts), 2 * count)
        self.assertEqual(set(counts.values()), {1})
