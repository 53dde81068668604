"""Lost segments of a real broker: the refusal to serve, the repair, and readers of every kind that pass the gaps."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import urllib.error
import urllib.request
from pathlib import Path

from logd.log.disk.names import CHECKPOINT, MARK, segment_name
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.recovery.flush_mark import encode_mark
from logd.protocol.entry import gap_length
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.create_delete_topic import CreateTopic
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.requests import encode_request
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.clients.test_broker_outages import Lines
from tests.integration.commands.rig import CliTestCase
from tests.integration.peers import PATIENCE, Peer
from tests.integration.shared_servers import folder_of_process

LINES = b"".join(b"%03d\n" % number for number in range(100))
ENTRY = 4 + 1 + 4 + 3
#: The test's log has messages up to here, and again from 3 GiB on.
LOST_FROM = len(LINES) // 4 * ENTRY
LOST_TO = 3 << 30
END = LOST_TO + LOST_FROM
#: Bytes that any reader of the whole log may be sent: two answers for each gap, of 4 MiB at most.
MOST_SENT = 3 * 2 * 4 << 20


@functools.cache
def damaged() -> Path:
    """Return the data directory of a broker that has stopped: both topics are filled, and a part of one is lost."""
    data = Path(folder_of_process(), "data")
    lines = MessageSet([Message(line) for line in LINES.splitlines()]).encode()
    with BrokerProcess(str(data)) as broker, Peer(broker.port) as peer:
        for topic in ("t", "u"):
            assert peer.ask(CreateTopic(topic, 1, {})).error == 0
            assert peer.ask(ProduceAck(-1, 30_000, (ProducePart(topic, 0, 0, False, lines),))).parts[0].error == 0
    segment = (data / "t-0" / segment_name(0)).read_bytes()
    assert len(segment) == LOST_FROM
    (data / "t-0" / segment_name(LOST_TO)).write_bytes(segment)
    (data / "t-0" / CHECKPOINT).write_bytes(Checkpoint(0, END).encode())
    (data / "t-0" / MARK).write_bytes(encode_mark(END))
    return data


class LostSegmentsTests(CliTestCase):
    """A topic ``t`` of which 3 GiB between two segments are lost, and a topic ``u`` beside it."""

    def setUp(self) -> None:
        """Start the broker, and name its tree to the commands."""
        super().setUp()
        self.folder = Path(self.broker.data, "t-0")
        self.missing = self.folder / segment_name(LOST_FROM)
        self.env["LOGD_ZOOKEEPER"] = self.broker.coordination

    def start_broker(self) -> BrokerProcess:
        """Return a broker over a copy of the topics, whose files the test may change."""
        self.http = free_port()
        data = os.path.abspath(self.mktemp())
        shutil.copytree(damaged(), data)
        broker = BrokerProcess(data, [f"--http=tcp:{self.http}:interface=127.0.0.1"]).start()
        self.addCleanup(lambda: self.assertEqual(broker.stop(), 0))
        return broker

    def health(self) -> dict[str, str]:
        """Return the offline partitions that /health shows, with their reasons."""
        try:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{self.http}/health", timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            found: dict[str, str] = json.load(answer)["offline"]
            return found

    def sent(self) -> int:
        """Return the bytes that the broker has sent to readers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        (line,) = [line for line in lines if line.startswith("logd_bytes_out_total ")]
        return int(float(line.split()[1]))

    def test_a_partition_with_a_lost_segment_is_not_served(self) -> None:
        """Every command gives the reason, no file is touched, and the other topic is served."""
        before = sorted(path.name for path in self.folder.iterdir())
        reason = f"bytes {LOST_FROM} to {LOST_TO} are lost"
        self.assertIn(f"{self.missing} is missing", self.health()["t-0"])
        self.logd("topics", "describe", "t", status=1)
        self.assertIn(reason, self.errors)
        self.assertIn(reason.encode(), self.logd("verify", self.broker.data, status=1))
        self.logd("produce", "t", "--timeout", "2", given=b"x\n", status=1)
        self.assertEqual(self.logd("consume", "u", "--exit-at-end"), LINES)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)

    def test_every_reader_passes_the_gaps_after_a_repair(self) -> None:
        """The repair runs through the broker; readers are sent little of the 3 GiB, and count what is lost."""
        text = self.logd("repair", "--broker", self.broker.address, "t", "--dry-run", status=1).decode()
        self.assertIn(f"{self.missing} is missing", text)
        self.logd("repair", "--broker", self.broker.address, "t", "--yes")
        self.assertEqual(self.health(), {})
        before = self.sent()
        self.assertEqual(self.logd("consume", "t", "--exit-at-end"), LINES * 2)
        self.assertIn(f"3 such losses by now, {LOST_TO - LOST_FROM:,} bytes", self.errors)
        self.assertLess(self.sent() - before, MOST_SENT)
        before = self.sent()
        self.assertEqual(self.logd("consume", "t", "--group", "g", "--exit-at-end"), LINES * 2)
        self.assertLess(self.sent() - before, MOST_SENT)
        (lag,) = json.loads(self.logd("groups", "describe", "g", "--json"))["partitions"]
        self.assertEqual((lag["position"], lag["lag_bytes"]), (END, 0))
        self.assertLess(sum(path.stat().st_blocks for path in self.folder.iterdir()), 1000)
        self.check_spark()
        self.check_legacy()
        self.assertEqual(json.loads(self.logd("produce", "t", "--json", given=b"on\n"))["acknowledged"], 1)
        (record,) = self.records("t", "--partition", "0", "--from", str(END), "--exit-at-end")
        self.assertEqual((record["id"], record["value"]), (END, "on"))

    def check_spark(self) -> None:
        """Check that a task of Spark reads all messages, counts the gaps, and is sent little."""
        before = self.sent()
        with BlockingCluster(ClusterSettings(brokers=self.broker.address)) as cluster:
            uuid = json.loads(self.logd("topics", "describe", "t", "--json"))["uuid"]
            reader = RangeReader(cluster, IdRange("t", uuid, 0, 0, END))
            self.assertEqual(sum(len(rows) for rows in reader.rows()), 200)
            self.assertEqual((reader.report.gaps, reader.report.gap_bytes), (3, LOST_TO - LOST_FROM))
        self.assertLess(self.sent() - before, MOST_SENT)

    def check_legacy(self) -> None:
        """Check that a fetch of 0.7 in the gap gets the gap's beginning, and one behind it the messages."""
        with socket.create_connection(("127.0.0.1", self.broker.port), timeout=PATIENCE) as peer:
            answers = []
            for offset in (LOST_FROM, LOST_TO):
                peer.sendall(b"".join(encode_request(Fetch("t", 0, offset, 100))))
                file = peer.makefile("rb")
                size = int.from_bytes(file.read(4), "big")
                answers.append(file.read(size)[2:])
        self.assertGreater(gap_length(answers[0]), 1 << 29)
        self.assertEqual((len(answers[0]), answers[1][9:12]), (100, b"000"))

    def test_files_of_a_stopped_broker_are_repaired(self) -> None:
        """Its next start serves the partition, without a look through the broker."""
        self.broker.stop()
        self.assertIn(b"sound", self.logd("repair", self.broker.data, "--yes"))
        self.logd("verify", self.broker.data)
        self.broker.start()
        self.assertEqual(self.logd("consume", "t", "--exit-at-end"), LINES * 2)

    def test_a_segment_put_back_is_served_as_it_was(self) -> None:
        """An operator who finds the file loses nothing: `logd repair --broker` checks it and makes no gap."""
        self.broker.stop()
        segment, aside = Path(self.broker.data, "u-0", segment_name(0)), Path(self.broker.data, "aside")
        segment.rename(aside)
        self.broker.start()
        self.assertIn(f"{segment} is missing", self.health()["u-0"])
        aside.rename(segment)
        self.logd("repair", "--broker", self.broker.address, "u", "--yes")
        self.assertEqual(list(self.health()), ["t-0"])
        self.assertEqual(self.logd("consume", "u", "--exit-at-end"), LINES)

    def test_a_consume_command_waits_for_an_offline_partition(self) -> None:
        """It prints the reason, and goes on once the partition is back."""
        self.broker.stop()
        segment, aside = Path(self.broker.data, "u-0", segment_name(0)), Path(self.broker.data, "aside")
        segment.rename(aside)
        self.broker.start()
        process = self.begin("consume", "u")
        lines = Lines(process)
        lines.until("cannot read topic 'u', partition [0] for ")
        lines.until(f"{segment} is missing")
        aside.rename(segment)
        self.logd("repair", "--broker", self.broker.address, "u", "--yes")
        assert process.stdout is not None
        self.assertEqual(process.stdout.read(len(LINES)), LINES)
        lines.until("topic 'u', partition [0] can be read again, after ")
