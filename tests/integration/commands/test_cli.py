"""The command line against a real broker, each command a process of its own."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from logd.testing.processes.python_process import run_python
from tests.integration.commands.rig import LOGD, PATIENCE, CliTestCase, SharedBrokerTestCase
from tests.integration.topics import topic_names


class RoundTripTests(SharedBrokerTestCase):
    """Lines that are produced and consumed by the commands."""

    def test_lines_come_back_byte_for_byte(self) -> None:
        """They come from files and from standard input, with bytes that are no UTF-8; the last needs no newline."""
        one = Path(self.mktemp())
        one.write_bytes(b"first\r\n\n\xff\x00\x85\nno newline")
        summary = json.loads(self.logd("produce", "t", str(one), "-", "--json", given=b"from stdin\n"))
        self.assertEqual((summary["messages"], summary["acknowledged"], summary["error"]), (5, 5, None))
        expected = b"first\r\n\n\xff\x00\x85\nno newline\nfrom stdin\n"
        self.assertEqual(self.logd("consume", "t", "--exit-at-end"), expected)

    def test_a_large_file_arrives_whole(self) -> None:
        """Its 20,000 lines are spread over partitions, and sent again compressed."""
        self.create("t", 3)
        lines = [b"%d %s" % (number, b"x" * (number % 300)) for number in range(20_000)]
        for compression in ("none", "zstd"):
            self.logd("produce", "t", "--compression", compression, given=b"\n".join(lines))
        found = self.logd("consume", "t", "--exit-at-end").split(b"\n")[:-1]
        self.assertEqual(sorted(found), sorted(lines * 2))

    def test_one_key_stays_in_one_partition(self) -> None:
        """The key is the text before the first separator; further separators belong to the value."""
        self.create("t", 4)
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

    def test_messages_go_to_the_given_partition_with_each_acks(self) -> None:
        """With --acks 0 the summary has no count of acknowledged messages; an unknown partition is refused."""
        self.create("t", 2)
        summary = json.loads(self.logd("produce", "t", "--partition", "1", "--acks", "0", "--json", given=b"a\nb\n"))
        self.assertEqual((summary["messages"], summary["acknowledged"]), (2, None))
        self.logd("produce", "t", "--partition", "1", "--acks", "1", given=b"c\n")
        self.logd("produce", "t", "--partition", "1", "--acks", "-1", given=b"d\n")  # readers see all up to here now
        values = [record["value"] for record in self.records("t", "--partition", "1", "--exit-at-end")]
        self.assertEqual(values, ["a", "b", "c", "d"])
        self.assertEqual(self.logd("consume", "t", "--partition", "0", "--exit-at-end"), b"")
        self.logd("produce", "t", "--partition", "2", given=b"x\n", status=1)
        self.assertIn("partition", self.errors)

    def test_a_line_of_an_open_pipe_is_delivered_at_once(self) -> None:
        """`tail -f | logd produce` must not wait for more lines; a consumer that waited for the topic gets the line."""
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


class StartTests(SharedBrokerTestCase):
    """The options --from, --max and --exit-at-end."""

    def test_consume_begins_at_positions_times_and_ends(self) -> None:
        """Positions are those of the JSON output, so that a script can go on where it stopped."""
        self.fill("t", b"one\ntwo\nthree\n")
        records = self.records("t", "--max", "2")
        self.assertEqual([record["value"] for record in records], ["one", "two"])
        after = str(records[0]["next_position"])
        self.assertEqual(after, str(records[1]["id"]))
        self.assertEqual(
            self.logd("consume", "t", "--partition", "0", "--from", after, "--exit-at-end"), b"two\nthree\n"
        )
        now = int(time.time() * 1000) / 1000  # not rounded up, or the message might be from before
        self.fill("t", b"four\n")
        self.assertTrue(self.logd("consume", "t", "--from", f"@{now}", "--exit-at-end").endswith(b"four\n"))
        self.assertEqual(self.logd("consume", "t", "--from", f"@{now + 3600}", "--exit-at-end"), b"")
        self.assertEqual(self.logd("consume", "t", "--from", "latest", "--exit-at-end"), b"")
        self.assertEqual(self.logd("consume", "t", "--max", "0"), b"")

    def test_a_missing_start_is_status_1_with_the_choices(self) -> None:
        """For a position, partition or topic that does not exist the error names those that do."""
        self.fill("t", b"one\n")
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


class EndTests(SharedBrokerTestCase):
    """Commands that cannot go on: their status and their last words."""

    def test_a_set_beyond_the_bound_names_the_option(self) -> None:
        """Both bounds, bytes and messages, hold with and without a group; with the default the set is read."""
        lines = b"".join(b"%x\n" % (7**40 * number) for number in range(1, 101))
        self.fill("zipped", lines, compression="zstd")
        for extra in ((), ("--group", "g", "--zookeeper", self.broker.coordination)):
            self.logd("consume", "zipped", "--exit-at-end", "--max-decompressed-messages", "50", *extra, status=1)
            self.assertIn("--max-decompressed-messages", self.errors)
        self.logd("consume", "zipped", "--exit-at-end", "--max-decompressed", "300", status=1)
        self.assertIn("(--max-decompressed)", self.errors)
        self.assertEqual(self.logd("consume", "zipped", "--exit-at-end"), lines)

    def test_consume_ends_silently_with_its_reader(self) -> None:
        """`logd consume | head` ends with the status of SIGPIPE, as other filters do."""
        self.fill("t", b"x" * 1000 + b"\n")
        consumer = self.begin("consume", "t")
        assert consumer.stdout is not None
        consumer.stdout.read(10)
        consumer.stdout.close()
        self.fill("t", b"more\n")
        self.assertEqual(consumer.wait(PATIENCE), 141)
        assert consumer.stderr is not None
        self.assertEqual(consumer.stderr.read(), b"")
        consumer.stdout = None

    def test_ctrl_c_is_status_130(self) -> None:
        """The producer also prints its count of acknowledged messages; the consumer prints nothing."""
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

    def test_bad_input_is_named_with_the_count_before_it(self) -> None:
        """File and line are named; the count tells a user from which line to go on."""
        self.logd("produce", "t", "-", "nowhere.log", given=b"one\n", status=1)
        self.assertIn("1 of 1 messages were acknowledged, then: nowhere.log cannot be read: No such file", self.errors)
        self.logd("produce", "t", "--key-separator", "=", given=b"a=1\nb\n", status=1)
        self.assertIn("line 2 of standard input does not contain the separator", self.errors)
        self.logd("produce", "t", given=b"short\n" + b"x" * 1_000_001, status=1)
        self.assertIn("line 2 of standard input is longer than 1000000 bytes", self.errors)
        self.logd("produce", "t", "--message-bytes", "2000000", given=b"x" * 1_000_001, status=1)
        self.assertIn("0 of 1 messages were acknowledged, then: ", self.errors)


class LostBrokerTests(CliTestCase):
    """Commands whose broker goes away, or is away."""

    def test_a_lost_broker_is_status_3_with_the_count(self) -> None:
        """The producer gives up after --timeout, and says how many messages were acknowledged."""
        producer = self.begin("produce", "t", "--timeout", "10")  # the first line may take seconds on a busy machine
        consumer = self.begin("consume", "t", "--max", "1")
        assert producer.stdin is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        self.assertEqual(consumer.wait(PATIENCE), 0)
        self.assertEqual(topic_names(self.broker.address), ["t"])  # what the broker answered before has left it
        self.broker.kill()
        _, errors = producer.communicate(b"two\n", timeout=PATIENCE)
        self.assertEqual(producer.returncode, 3, errors)
        self.assertIn(b"1 of 2 messages were acknowledged, then: ", errors)

    def test_a_stop_without_a_broker_says_what_it_waits_for(self) -> None:
        """The producer's second Ctrl-C keeps the count of what was acknowledged."""
        producer = self.begin("produce", "t")
        member = self.begin("consume", "t", "--group", "g", "--zookeeper", self.broker.coordination)
        assert producer.stdin is not None and member.stdout is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        self.assertEqual(member.stdout.readline(), b"one\n")
        self.broker.kill()
        producer.stdin.write(b"two\n")
        producer.stdin.flush()
        assert producer.stderr is not None
        while b"connect" not in producer.stderr.readline():
            self.assertIsNone(producer.poll())
        for process, waits, last in (
            (producer, b"a broker to acknowledge the messages in flight", b"interrupted; 1 of 2 messages were ack"),
            (member, b"the coordination tree to note the positions", b""),
        ):
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            while b"stopping" not in (line := process.stderr.readline()):
                self.assertIsNone(process.poll())
            self.assertIn(waits + b"; Ctrl-C again ends at once\n", line)
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=PATIENCE)[1]
            self.assertEqual(process.returncode, 130)
            self.assertIn(last, errors)
        self.broker.start()

    def test_an_unreachable_broker_is_status_3_with_its_address(self) -> None:
        """This holds for every command, in one line."""
        self.broker.stop()
        address = self.broker.address
        self.refused(
            3,
            (["produce", "t"], address),
            (["consume", "t"], address),
            (["topics", "list"], address),
            (["topics", "delete", "t", "--yes"], address),
        )


class TopicsTests(SharedBrokerTestCase):
    """The commands of ``logd topics``."""

    def test_a_topic_is_made_listed_described_and_deleted(self) -> None:
        """Each command has an output for people and one in JSON, with the same content."""
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
            self.fill("b", b"x" * 200 + b"\n", 1)
        empty, full = json.loads(self.logd("topics", "describe", "b", "--json"))["partitions"]
        self.assertEqual((empty["end"], empty["bytes"]), (0, 0))
        self.assertEqual((full["start"], full["end"], full["visible_end"], full["bytes"]), (0, 669, 669, 669))
        self.assertEqual([segment["start"] for segment in full["segments"]], [0, 223, 446])
        lines = self.logd("topics", "describe", "b", "--segments").splitlines()
        self.assertEqual(lines[1].split(b"\t")[5:7], [b"669", b"3"])
        self.assertEqual(len(lines), 2 + 4)
        self.assertEqual(self.logd("topics", "delete", "b", "--yes"), b"deleted b\n")
        self.assertEqual(self.logd("topics", "list"), b"a\t1\n")

    def test_deleting_asks_at_a_terminal(self) -> None:
        """A no leaves the topic, and --yes asks nothing. A script without --yes is refused; so is a misspelt topic."""
        self.create("t")
        self.refused(
            1,
            (["topics", "delete", "t"], "Standard input is not a terminal, so nothing was done: give --yes"),
            (["topics", "delete", "nope"], "no topic 'nope'"),
        )
        self.assertEqual(topic_names(self.broker.address), ["t"])
        for arguments, answer, status in ((["t"], b"n\n", 1), (["t"], b"y\n", 0), (["t", "--yes"], b"", 1)):
            person, terminal = os.openpty()
            self.addCleanup(os.close, person)
            os.write(person, answer)
            done = run_python(
                [*LOGD, "topics", "delete", *arguments],
                stdin=terminal,
                capture_output=True,
                env=self.env,
                timeout=PATIENCE,
                check=False,
            )
            os.close(terminal)
            self.assertEqual((done.returncode, b"and every message" in done.stderr), (status, answer != b""))
            self.assertEqual(topic_names(self.broker.address), ["t"] if answer == b"n\n" else [])
