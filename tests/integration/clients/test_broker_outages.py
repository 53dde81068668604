"""Commands and scripts whose broker goes away: they report it, notice failures by themselves, and end at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.integration.commands.rig import PATIENCE, CliTestCase, SharedBrokerTestCase

_BLOCKING = """
import sys
from logd.client.blocking import Producer

with Producer(sys.argv[1]) as producer:
    print("begun", flush=True)
    producer.send("t", b"never").wait()
"""

_DEFERRED = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from logd import Message, Producer

async def main(reactor):
    print("begun", flush=True)
    await Producer(sys.argv[1]).send("t", [Message(b"never")])

react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
"""


class Lines(threading.Thread):
    """A thread that collects what a process writes on stderr."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        assert process.stderr is not None
        self._file = process.stderr
        self._changed = threading.Condition()
        self.text = ""
        self.start()

    def run(self) -> None:
        """Read until the end."""
        for line in iter(self._file.readline, b""):
            with self._changed:
                self.text += line.decode()
                self._changed.notify_all()

    def until(self, words: str) -> None:
        """Wait until ``words`` were written."""
        with self._changed:
            if not self._changed.wait_for(lambda: words in self.text, PATIENCE):
                raise AssertionError(f"waited {PATIENCE} seconds for {words!r} in {self.text!r}")


class BrokerOutageTests(CliTestCase):
    """Commands and scripts without their broker."""

    def producing(self, *more: str) -> tuple[subprocess.Popen[bytes], Lines]:
        """Begin a produce command whose first line is acknowledged, and kill the broker before the second."""
        self.create("t")
        process = self.begin("produce", "t", *more)
        lines = Lines(process)
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        self.until_stored([b"one"])
        self.broker.kill()
        process.stdin.write(b"two\n")
        process.stdin.flush()
        return process, lines

    def until_stored(self, values: list[bytes]) -> None:
        """Wait until the topic has as many messages; check that they are these."""
        self.until(lambda: len(self.values("t")) >= len(values), "messages in the topic")
        self.assertEqual(self.values("t"), values)

    def ended(self, process: subprocess.Popen[bytes], lines: Lines) -> int:
        """Wait for the end of a process whose standard input is still open; return its status."""
        status = process.wait(PATIENCE)
        lines.join(PATIENCE)
        return status

    def test_produce_ends_when_a_line_cannot_be_delivered(self) -> None:
        """It does not wait for more input, and its count of acknowledged messages is right."""
        process, lines = self.producing("--timeout", "4")
        lines.until("no connection to the broker at")
        self.assertEqual(self.ended(process, lines), 3)
        self.assertIn("1 of 2 messages were acknowledged, then: not delivered to topic 't'", lines.text)

    def test_produce_delivers_once_the_broker_is_back(self) -> None:
        """It reports the loss and the return of the connection, and no line is missing."""
        process, lines = self.producing()
        lines.until("no connection to the broker at")
        self.broker.start()
        lines.until("is connected again")
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.values("t"), [b"one", b"two"])

    def test_an_interrupted_produce_prints_its_count(self) -> None:
        """Without the count, a user could not tell which lines to send again; it waits for the broker before."""
        process, lines = self.producing()
        lines.until("no connection to the broker at")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.ended(process, lines), 130)
        self.assertIn("interrupted; 1 of 2 messages were acknowledged", lines.text)

    def test_consume_goes_on_once_the_broker_is_back(self) -> None:
        """It reports the loss and the return of the connection; messages sent afterwards arrive."""
        self.fill("t", b"one\n")
        process = self.begin("consume", "t")
        lines = Lines(process)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), b"one\n")
        self.broker.kill()
        lines.until("no connection to the broker at")
        self.broker.start()
        lines.until("is connected again")
        self.fill("t", b"two\n")
        self.assertEqual(process.stdout.readline(), b"two\n")

    def test_a_blocking_script_reports_the_loss_and_ends_on_ctrl_c(self) -> None:
        """The report comes after a few seconds, and one Ctrl-C is enough."""
        text = self.interrupted(_BLOCKING)
        self.assertIn("KeyboardInterrupt", text)
        self.assertNotIn("nothing waited", text)

    def test_a_program_without_a_log_reports_the_loss_once(self) -> None:
        """A program that never begins Twisted's log would otherwise wait in silence; Ctrl-C ends it at once."""
        text = self.interrupted(_DEFERRED)
        self.assertEqual(text.count("no connection to the broker at"), 1, text)

    def interrupted(self, program: str) -> str:
        """Run a program without a broker until it reports that, send SIGINT, and return its standard error."""
        self.broker.stop()
        script = Path(self.mktemp())
        script.write_text(program)
        process = subprocess.Popen(
            [sys.executable, os.path.abspath(script), self.broker.address],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        lines = Lines(process)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), b"begun\n")
        lines.until("no connection to the broker at")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.ended(process, lines)
        self.assertLess(time.monotonic() - began, 60.0)  # it was two minutes
        return lines.text


class TooLongTests(SharedBrokerTestCase):
    """Lines longer than a message may be."""

    def test_produce_leaves_out_lines_that_are_too_long(self) -> None:
        """With --skip-too-long it goes on with the next line, and counts only the lines that are stored."""
        given = b"one\n" + b"x" * 40 + b"\ntwo\n" + b"y" * 700_000 + b"\nthree\n"
        self.logd("produce", "t", "--message-bytes", "30", "--skip-too-long", given=given)
        self.assertIn("logd: left out 2 lines longer than --message-bytes\n3 messages", self.errors)
        self.assertEqual(self.values("t"), [b"one", b"two", b"three"])

    def test_produce_leaves_out_lines_that_the_broker_refuses(self) -> None:
        """The topic's message.bytes is below the command's: sets, also compressed, are sent again without them."""
        lines = [os.urandom(600 if number % 50 == 7 else 20).hex().encode() for number in range(500)]
        kept = [line for line in lines if len(line) < 1000]
        for compression in ("none", "zstd"):
            topic = f"small-{compression}"
            self.create(topic, message_bytes=500)
            given = b"".join(b"%s\n" % line for line in lines)
            summary = json.loads(
                self.logd("produce", topic, "--skip-too-long", "--json", "--compression", compression, given=given)
            )
            self.assertIn("logd: left out 10 lines longer than the broker's or topic's message.bytes", self.errors)
            self.assertEqual([summary[name] for name in ("messages", "acknowledged", "skipped")], [490, 490, 10])
            self.assertEqual((summary["bytes"], summary["error"]), (490 * 40, None))
            self.assertEqual(self.values(topic), kept)

    def test_a_refused_message_is_named_with_its_size(self) -> None:
        """The error names the broker's setting too, which the user has to raise."""
        self.refused(
            1,
            (
                ["produce", "t", "--message-bytes", "2000000", self.long_line()],
                "partition 0: the broker refused a message: it has 1200014 bytes with key and headers, and the setting "
                "message.bytes of the broker or the topic allows fewer",
            ),
        )

    def long_line(self) -> str:
        """Make a file of one long line, and return its path."""
        path = Path(self.mktemp())
        path.write_bytes(b"x" * 1_200_000)
        return os.path.abspath(path)
