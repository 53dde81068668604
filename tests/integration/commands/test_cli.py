"""The command line against a real broker, each command a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess

ROOT = Path(__file__).resolve().parents[3]
LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
PATIENCE = 60


class CliTestCase(SynchronousTestCase):
    """A broker and its address in LOGD_BROKER."""

    #: Seconds that a command may take.
    patience = PATIENCE

    def setUp(self) -> None:
        """Start a broker over an empty data directory."""
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()))
        self.broker.start()
        self.addCleanup(lambda: self.assertEqual(self.broker.stop(), 0))
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_BROKER": self.broker.address}

    def logd(self, *arguments: str, given: bytes = b"", status: int = 0) -> bytes:
        """Run a command to its end, expect its exit status, and return what it wrote; stderr is kept."""
        done = subprocess.run(
            [*LOGD, *arguments], input=given, capture_output=True, env=self.env, timeout=self.patience, check=False
        )
        self.errors = done.stderr.decode()
        self.assertEqual(done.returncode, status, self.errors)
        return done.stdout

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command with pipes, to be ended at the latest with the test."""
        process = subprocess.Popen(
            [*LOGD, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def refused(self, status: int, *commands: tuple[list[str], str]) -> None:
        """Run commands side by side; each ends with the status, and one line on stderr that contains the words."""
        processes = [self.begin(*arguments) for arguments, _ in commands]
        for process, (arguments, words) in zip(processes, commands, strict=True):
            _, errors = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, status, (arguments, errors))
            self.assertIn(words, errors.decode())
            self.assertEqual(errors.count(b"\n"), 1, errors)

    def records(self, *arguments: str) -> list[dict[str, Any]]:
        """What a consume command with JSON writes."""
        return [json.loads(line) for line in self.logd("consume", *arguments, "--format", "json").splitlines()]


class RoundTripTests(CliTestCase):
    """What is produced is what is consumed."""

    def test_every_byte(self) -> None:
        """Lines of files and of standard input come back byte for byte, in order; the last needs no newline."""
        one = Path(self.mktemp())
        one.write_bytes(b"first\r\n\n\xff\x00\x85\nno newline")
        summary = json.loads(self.logd("produce", "t", str(one), "-", "--json", given=b"from stdin\n"))
        self.assertEqual((summary["messages"], summary["acknowledged"], summary["error"]), (5, 5, None))
        expected = b"first\r\n\n\xff\x00\x85\nno newline\nfrom stdin\n"
        self.assertEqual(self.logd("consume", "t", "--exit-at-end"), expected)

    def test_large(self) -> None:
        """A file of many pieces arrives whole, over partitions and through compression."""
        self.logd("topics", "create", "t", "--partitions", "3")
        lines = [b"%d %s" % (number, b"x" * (number % 300)) for number in range(20_000)]
        for compression in ("none", "zstd"):
            self.logd("produce", "t", "--compression", compression, given=b"\n".join(lines))
        found = self.logd("consume", "t", "--exit-at-end").split(b"\n")[:-1]
        self.assertEqual(sorted(found), sorted(lines * 2))

    def test_keys(self) -> None:
        """With a separator the text before it is the key, and one key stays in one partition."""
        self.logd("topics", "create", "t", "--partitions", "4")
        given = b"".join(b"user%d\t%d\tmore\n" % (number % 7, number) for number in range(70))
        self.logd("produce", "t", "--key-separator", "\\t", given=given)
        records = self.records("t", "--exit-at-end")
        self.assertEqual(len(records), 70)
        places: dict[str, set[int]] = {}
        for record in records:
            places.setdefault(record["key"], set()).add(record["partition"])
            number, more = record["value"].split("\t")
            self.assertEqual((record["key"], more), (f"user{int(number) % 7}", "more"))
        self.assertEqual([len(each) for each in places.values()], [1] * 7)

    def test_partition_and_acks(self) -> None:
        """Messages go to the partition asked for; who asks for no acknowledgement is told of none."""
        self.logd("topics", "create", "t", "--partitions", "2")
        summary = json.loads(self.logd("produce", "t", "--partition", "1", "--acks", "0", "--json", given=b"a\nb\n"))
        self.assertEqual((summary["messages"], summary["acknowledged"]), (2, None))
        self.logd("produce", "t", "--partition", "1", "--acks", "1", given=b"c\n")
        self.assertEqual([r["value"] for r in self.records("t", "--partition", "1", "--exit-at-end")], ["a", "b", "c"])
        self.assertEqual(self.logd("consume", "t", "--partition", "0", "--exit-at-end"), b"")
        self.logd("produce", "t", "--partition", "2", given=b"x\n", status=1)
        self.assertIn("partition", self.errors)

    def test_lines_leave_at_once(self) -> None:
        """A line of a pipe that stays open is delivered; a consumer that waits for a topic gets it."""
        consumer = self.begin("consume", "t", "--max", "1")
        assert consumer.stderr is not None
        self.assertIn(b"waiting for it", consumer.stderr.readline())
        producer = self.begin("produce", "t")
        assert producer.stdin is not None
        producer.stdin.write(b"at once\n")
        producer.stdin.flush()
        out, _ = consumer.communicate(timeout=PATIENCE)
        self.assertEqual((consumer.returncode, out), (0, b"at once\n"))
        self.assertIsNone(producer.poll())


class StartTests(CliTestCase):
    """--from, --max and --exit-at-end."""

    def test_starts(self) -> None:
        """Positions are those that JSON shows; a time finds what came later; the end has nothing."""
        self.logd("produce", "t", given=b"one\ntwo\nthree\n")
        records = self.records("t", "--max", "2")
        self.assertEqual([record["value"] for record in records], ["one", "two"])
        after = str(records[0]["next_position"])
        self.assertEqual(after, str(records[1]["id"]))
        self.assertEqual(
            self.logd("consume", "t", "--partition", "0", "--from", after, "--exit-at-end"), b"two\nthree\n"
        )
        now = time.time()
        self.logd("produce", "t", given=b"four\n")
        self.assertTrue(self.logd("consume", "t", "--from", f"@{now}", "--exit-at-end").endswith(b"four\n"))
        self.assertEqual(self.logd("consume", "t", "--from", f"@{now + 3600}", "--exit-at-end"), b"")
        self.assertEqual(self.logd("consume", "t", "--from", "latest", "--exit-at-end"), b"")
        self.assertEqual(self.logd("consume", "t", "--max", "0"), b"")

    def test_not_there(self) -> None:
        """A position, a partition or a topic that is not there is status 1, and says what there is."""
        self.logd("produce", "t", given=b"one\n")
        there = "999 is not in the log, which is 0 to 26"
        self.refused(
            1,
            (["consume", "t", "--partition", "0", "--from", "999", "--exit-at-end"], there),
            (["consume", "t", "--partition", "0", "--from", "999"], there),
            (["consume", "t", "--partition", "5"], "no partition 5: it has 1, numbered from 0"),
            (["consume", "nope", "--exit-at-end"], "no topic 'nope'"),
            (["topics", "describe", "nope"], "no topic 'nope'"),
            (["topics", "delete", "nope", "--yes"], "no topic 'nope'"),
        )


class EndTests(CliTestCase):
    """How commands end that cannot go on."""

    def test_bounds_of_compressed_sets(self) -> None:
        """A set that becomes more than the bound is an error that names the option; with a larger bound it is read."""
        lines = b"".join(b"%x\n" % (7**40 * number) for number in range(1, 101))
        self.logd("produce", "zipped", "--compression", "zstd", given=lines)
        for extra in ((), ("--group", "g", "--zookeeper", self.broker.coordination)):
            self.logd("consume", "zipped", "--exit-at-end", "--max-decompressed-messages", "50", *extra, status=1)
            self.assertIn("--max-decompressed-messages", self.errors)
        self.logd("consume", "zipped", "--exit-at-end", "--max-decompressed", "300", status=1)
        self.assertIn("(--max-decompressed)", self.errors)
        self.assertEqual(self.logd("consume", "zipped", "--exit-at-end"), lines)

    def test_reader_goes_away(self) -> None:
        """When the reader of the output closes it the command ends silently, as other filters do."""
        self.logd("produce", "t", given=b"x" * 1000 + b"\n")
        consumer = self.begin("consume", "t")
        assert consumer.stdout is not None
        consumer.stdout.read(10)
        consumer.stdout.close()
        self.logd("produce", "t", given=b"more\n")
        self.assertEqual(consumer.wait(PATIENCE), 141)
        assert consumer.stderr is not None
        self.assertEqual(consumer.stderr.read(), b"")
        consumer.stdout = None

    def test_interrupted(self) -> None:
        """SIGINT ends a consumer that waits, and a producer that reads, with 130; the latter says what it did."""
        producer = self.begin("produce", "t")
        consumer = self.begin("consume", "t", "--partition", "0")
        assert producer.stdin is not None and consumer.stdout is not None
        producer.stdin.write(b"one\ntwo\n")
        producer.stdin.flush()
        self.assertEqual(consumer.stdout.readline(), b"one\n")
        for process, words in ((producer, b"interrupted; 2 of 2 messages were acknowledged"), (consumer, b"")):
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(PATIENCE), 130)
            assert process.stderr is not None
            self.assertIn(words, process.stderr.read())

    def test_bad_input(self) -> None:
        """What cannot be read or sent is named, with how many messages were acknowledged before it."""
        self.logd("produce", "t", "-", "nowhere.log", given=b"one\n", status=1)
        self.assertIn("1 of 1 messages were acknowledged, then: nowhere.log cannot be read: No such file", self.errors)
        self.logd("produce", "t", "--key-separator", "=", given=b"a=1\nb\n", status=1)
        self.assertIn("line 2 of standard input does not contain the separator", self.errors)
        self.logd("produce", "t", given=b"short\n" + b"x" * 1_000_001, status=1)
        self.assertIn("line 2 of standard input is longer than 1000000 bytes", self.errors)
        self.logd("produce", "t", "--message-bytes", "2000000", given=b"x" * 1_000_001, status=1)
        self.assertIn("0 of 1 messages were acknowledged, then: ", self.errors)

    def test_broker_lost(self) -> None:
        """A broker that goes away for good is status 3, with how many messages it had acknowledged."""
        producer = self.begin("produce", "t", "--timeout", "1")
        consumer = self.begin("consume", "t", "--max", "1")
        assert producer.stdin is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        self.assertEqual(consumer.wait(PATIENCE), 0)
        self.broker.kill()
        _, errors = producer.communicate(b"two\n", timeout=PATIENCE)
        self.assertEqual(producer.returncode, 3, errors)
        self.assertIn(b"1 of 2 messages were acknowledged, then: ", errors)

    def test_unreachable(self) -> None:
        """Where no broker answers every command is status 3, and names the address."""
        self.broker.stop()
        address = self.broker.address
        self.refused(
            3,
            (["produce", "t"], address),
            (["consume", "t"], address),
            (["topics", "list"], address),
            (["topics", "delete", "t", "--yes"], address),
        )


class TopicsTests(CliTestCase):
    """logd topics."""

    def test_life_of_a_topic(self) -> None:
        """A topic is made, listed, described and deleted, for people and for scripts."""
        made = json.loads(
            self.logd("topics", "create", "b", "-p", "2", "--set", "segment.bytes=100", "--set", "flush.ms=5", "--json")
        )
        self.assertEqual((made["partitions"], made["settings"]), (2, {"segment.bytes": 100, "flush.ms": 5}))
        self.assertEqual(self.logd("topics", "create", "a"), b"created a with 1 partition\n")
        self.logd("topics", "create", "a", status=1)
        self.assertIn("exists already", self.errors)
        self.assertEqual(self.logd("topics", "list"), b"a\t1\nb\t2\n")
        listed = json.loads(self.logd("topics", "list", "--json"))
        self.assertEqual([(each["topic"], each["partitions"]) for each in listed], [("a", 1), ("b", 2)])
        self.assertEqual(listed[1]["uuid"], made["uuid"])
        for _ in range(3):
            self.logd("produce", "b", "--partition", "1", given=b"x" * 200)
        empty, full = json.loads(self.logd("topics", "describe", "b", "--json"))["partitions"]
        self.assertEqual((empty["end"], empty["bytes"]), (0, 0))
        self.assertEqual((full["start"], full["end"], full["visible_end"], full["bytes"]), (0, 669, 669, 669))
        self.assertEqual([segment["start"] for segment in full["segments"]], [0, 223, 446])
        lines = self.logd("topics", "describe", "b", "--segments").splitlines()
        self.assertEqual(lines[1].split(b"\t")[5:7], [b"669", b"3"])
        self.assertEqual(len(lines), 2 + 4)
        self.assertEqual(self.logd("topics", "delete", "b", "--yes"), b"deleted b\n")
        self.assertEqual(self.logd("topics", "list"), b"a\t1\n")

    def test_delete_asks(self) -> None:
        """A person at a terminal is asked before a topic is deleted; a no leaves it, --yes asks nothing. A script that
        does not say --yes is refused."""
        self.logd("topics", "create", "t")
        self.refused(
            1, (["topics", "delete", "t"], "Standard input is not a terminal, so nothing was done: give --yes")
        )
        self.assertEqual(self.logd("topics", "list"), b"t\t1\n")
        for arguments, answer, status in ((["t"], b"n\n", 1), (["t"], b"y\n", 0), (["t", "--yes"], b"", 1)):
            person, terminal = os.openpty()
            self.addCleanup(os.close, person)
            os.write(person, answer)
            done = subprocess.run(
                [*LOGD, "topics", "delete", *arguments],
                stdin=terminal,
                capture_output=True,
                env=self.env,
                timeout=PATIENCE,
                check=False,
            )
            os.close(terminal)
            self.assertEqual((done.returncode, b"and every message" in done.stderr), (status, answer != b""))
        self.assertEqual(self.logd("topics", "list"), b"")
