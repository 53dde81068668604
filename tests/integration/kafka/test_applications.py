"""Kafka Streams and Kafka Connect, with their own jars, on a broker of logd: only where the jars are named."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.peers import PATIENCE

#: A folder with the jars of kafka-streams and connect-file, and what they need, such as Maven copies them.
JARS = os.environ.get("LOGD_KAFKA_APPLICATIONS", "")
_WORDS = ["to be or not to be", "that is the question", "to die to sleep"]
_COUNTS = {"to": 4, "be": 2, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1, "die": 1, "sleep": 1}


class ApplicationTests(SynchronousTestCase):
    """Programs that keep their state in topics."""

    timeout = 600
    if not JARS:
        skip = (
            "starts Java programs: LOGD_KAFKA_APPLICATIONS=FOLDER, with the jars of Kafka Streams and Connect, runs it"
        )
    elif not any(Path(JARS).glob("*.jar")):
        skip = f"LOGD_KAFKA_APPLICATIONS names {JARS}, where there are no jars"

    def setUp(self) -> None:
        """Start a broker."""
        self.folder = Path(self.mktemp()).resolve()
        self.folder.mkdir()
        self.port = free_port()
        options = ("--kafka-listen", f"tcp:{self.port}:interface=127.0.0.1")
        self.broker = BrokerProcess(str(self.folder / "data"), options)
        self.addCleanup(self.broker.kill)
        self.broker.start()

    def run_java(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a Java program, which is killed with the test."""
        log = (self.folder / f"{words[0].rpartition('/')[2]}.log").open("wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            ["java", "-Xmx512m", "-cp", f"{JARS}/*", *words], stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def stored(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Return keys and values of a topic with one partition, as the broker's files have them."""
        found = []
        for path in sorted((self.folder / "data" / f"{topic}-0").glob("*.log")):
            found += [(each.key, each.payload) for each in loops.decode_set(path.read_bytes()).messages]
        return found

    def produce(self, topic: str, lines: Sequence[str]) -> None:
        """Produce with a client of Kafka."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{self.port}")
        for line in lines:
            producer.send(topic, line.encode())
        producer.flush()
        producer.close()

    def test_streams_count_words(self) -> None:
        """Also after the program was killed, by the topics in which it keeps its state."""
        source = Path(__file__).with_name("WordCount.java")
        words = (str(source), f"127.0.0.1:{self.port}", str(self.folder / "state"))
        self.produce("lines", _WORDS[:2])
        program = self.run_java(*words)
        self.until(lambda: self.counts().get("to") == 2 and len(self.counts()) == 8, "the words of two lines")
        # Streams counts again what it has not committed, as its guarantee is "at least once".
        self.until(self.has_committed, "the positions behind two lines")
        program.kill()
        program.wait()
        self.produce("lines", _WORDS[2:])
        self.run_java(*words)
        self.until(lambda: self.counts() == _COUNTS, "the words of all lines")

    def has_committed(self) -> bool:
        """Return whether the program has committed the ends of its source and of the topic of its own behind that."""
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{self.port}", group_id="word-count")
        try:
            own = [each for each in consumer.topics() if each.endswith("-repartition")]
            places = [TopicPartition(each, 0) for each in ("lines", *own)]
            ends = consumer.end_offsets(places)
            return len(own) == 1 and all(consumer.committed(each) == ends[each] for each in places)
        finally:
            consumer.close(autocommit=False)

    def counts(self) -> dict[str, int]:
        """Return the newest count of each word."""
        return {key.decode(): int(value) for key, value in self.stored("words") if key and value}

    def test_connect_copies_a_file_to_a_file(self) -> None:
        """By a topic, with a worker that keeps its positions in a file and in a group."""
        source, sink = self.folder / "from.txt", self.folder / "to.txt"
        source.write_text("one\ntwo\nthree\n", encoding="ascii")
        converter = "org.apache.kafka.connect.storage.StringConverter"
        properties = {
            "worker": {
                "bootstrap.servers": f"127.0.0.1:{self.port}",
                "key.converter": converter,
                "value.converter": converter,
                "offset.storage.file.filename": self.folder / "positions",
                "offset.flush.interval.ms": 200,
                "listeners": f"http://127.0.0.1:{free_port()}",
                "plugin.discovery": "only_scan",
            },
            "source": {
                "name": "source",
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": 1,
                "file": source,
                "topic": "copied",
            },
            "sink": {
                "name": "sink",
                "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
                "tasks.max": 1,
                "file": sink,
                "topics": "copied",
            },
        }
        paths = []
        for name, settings in properties.items():
            path = self.folder / f"{name}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="ascii")
            paths.append(str(path))
        self.run_java("org.apache.kafka.connect.cli.ConnectStandalone", *paths)
        self.until(lambda: sink.exists() and sink.read_text() == "one\ntwo\nthree\n", "the lines in the other file")
        with source.open("a") as file:
            file.write("four\n")
        self.until(lambda: sink.read_text() == "one\ntwo\nthree\nfour\n", "the line that came later")

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + 4 * PATIENCE
        while not true():
            if time.monotonic() > deadline:
                logs = "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
                self.fail(f"never came: {what}\n{logs}")
            time.sleep(0.1)
