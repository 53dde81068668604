"""Compression bombs at a real consumer: small messages that would expand to 256 MiB."""

from __future__ import annotations

import os
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import cramjam

from logd.protocol.checksums import crc32
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.processes.python_process import run_python
from tests.integration.peers import PATIENCE, BrokerTestCase

ROOT = Path(__file__).resolve().parents[3]
#: A program that runs a command, and writes its /proc/self/status at the end to the file named by MEMORY.
PROGRAM = """
import atexit, os
from pathlib import Path
atexit.register(lambda: Path(os.environ["MEMORY"]).write_text(Path("/proc/self/status").read_text()))
from logd.cli.main import main
main(prog_name="logd")
"""
MEGABYTE = 1 << 20
#: Four times the limit to which a consumer expands a message.
BOMB_BYTES = 256 * MEGABYTE
#: Most memory of a consumer that keeps to its limit; a consumer that expands a bomb takes more.
MOST_BYTES = BOMB_BYTES


def wrapper(codec: int, payload: bytes) -> bytes:
    """Return a magic-1 entry."""
    return (len(payload) + 6).to_bytes(4, "big") + bytes((1, codec)) + crc32(payload).to_bytes(4, "big") + payload


def bomb(compressor: Any) -> bytes:
    """Return BOMB_BYTES zeros, compressed a megabyte at a time."""
    pieces = [bytes(compressor.compress(bytes(MEGABYTE)) or b"") for _ in range(BOMB_BYTES // MEGABYTE)]
    if isinstance(compressor, cramjam.zstd.Compressor):
        return bytes(compressor.finish())
    return b"".join(pieces) + bytes(compressor.flush())


class BombTests(BrokerTestCase):
    """Bombs that the broker stores: it checks a wrapper's sum and does not expand it."""

    def test_a_consumer_refuses_a_bomb_in_bounded_memory(self) -> None:
        """The error names the option and the position behind the bomb, from which the next message is read."""
        bombs = {
            "gzip": wrapper(1, bomb(zlib.compressobj(wbits=31))),
            "zstd": wrapper(3, bomb(cramjam.zstd.Compressor())),
        }
        peer = self.connect()
        # snappy cannot reach the bound from a megabyte; the broker refuses a header that claims more than follows.
        lying = wrapper(2, b"\x80\x80\x80\x80\x04" + bytes(cramjam.snappy.compress_raw(bytes(1000)))[2:])
        self.assertEqual(peer.ask(ProduceAck(-1, 0, (ProducePart("snappy", 0, 0, False, lying),))).parts[0].error, 2)
        for name, harmful in bombs.items():
            self.assertLess(len(harmful), MEGABYTE)
            sound = [MessageSet([Message(word)]).encode() for word in (b"before", b"behind")]
            for data in (sound[0], harmful, sound[1]):
                answer = peer.ask(ProduceAck(-1, 0, (ProducePart(name, 0, 0, False, data),)))
                self.assertEqual(answer.parts[0].error, 0, name)
            status, output, errors, memory = self.consume(name)
            self.assertEqual((status, output), (1, b"before\n"), errors)
            self.assertLess(memory, MOST_BYTES, name)
            # It is not damaged, so skipping damage does not skip it: it may hold messages that are wanted.
            status, output, errors, memory = self.consume(name, "--on-corrupt", "skip")
            self.assertEqual((status, output), (1, b"before\n"), errors)
            self.assertIn("would expand to more than 67108864 bytes", errors)
            self.assertIn("(--max-decompressed)", errors)
            self.assertLess(memory, MOST_BYTES, name)
            found = re.search(r"at position (\d+)", errors)
            assert found is not None, errors
            status, output, errors, memory = self.consume(name, "--partition", "0", "--from", found[1])
            self.assertEqual((status, output), (0, b"behind\n"), errors)

    def consume(self, topic: str, *options: str) -> tuple[int, bytes, str, int]:
        """Run the command; return its status, output, errors and peak memory in bytes."""
        memory = Path(self.mktemp())
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_BROKER": self.broker.address, "MEMORY": str(memory)}
        command = [sys.executable, "-c", PROGRAM, "consume", topic, "--exit-at-end", *options]
        done = run_python(command, capture_output=True, env=env, timeout=PATIENCE, check=False)
        most = int(memory.read_text().split("VmHWM:")[1].split()[0]) * 1024
        return done.returncode, done.stdout, done.stderr.decode(), most
