"""Small messages that want to become large ones, at a real consumer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import cramjam

from logd.protocol.checksums import crc32
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.integration.peers import PATIENCE, BrokerTestCase

ROOT = Path(__file__).resolve().parents[3]
#: Runs a command, and writes to the file in MEMORY how much it had at most.
PROGRAM = """
import atexit, os
from pathlib import Path
atexit.register(lambda: Path(os.environ["MEMORY"]).write_text(Path("/proc/self/status").read_text()))
from logd.cli.main import main
main(prog_name="logd")
"""
MEGABYTE = 1 << 20
#: Four times what a consumer lets a message become.
BOMB_BYTES = 256 * MEGABYTE
#: What a consumer takes at most: itself, what it lets a message become, and some. With a bomb in it, it takes more.
MOST_BYTES = BOMB_BYTES


def wrapper(codec: int, payload: bytes) -> bytes:
    """A magic-1 entry."""
    return (len(payload) + 6).to_bytes(4, "big") + bytes((1, codec)) + crc32(payload).to_bytes(4, "big") + payload


def bomb(compressor: Any) -> bytes:
    """Zeros, a megabyte at a time."""
    pieces = [bytes(compressor.compress(bytes(MEGABYTE)) or b"") for _ in range(BOMB_BYTES // MEGABYTE)]
    if isinstance(compressor, cramjam.zstd.Compressor):
        return bytes(compressor.finish())
    return b"".join(pieces) + bytes(compressor.flush())


class BombTests(BrokerTestCase):
    """The broker takes them: it looks at their outside alone."""

    def test_consume(self) -> None:
        """``logd consume`` fails on each without blowing up, and says where to go on behind it."""
        bombs = {
            "gzip": wrapper(1, bomb(zlib.compressobj(wbits=31))),
            "zstd": wrapper(3, bomb(cramjam.zstd.Compressor())),
        }
        peer = self.connect()
        # What snappy makes a megabyte of stays below the bound; one that says more than it can hold is refused here.
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
            # It is not damaged, so whoever skips damage does not skip it: it may hold messages that are wanted.
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
        """Run the command; return its status, what it wrote, and the most memory that it had."""
        memory = Path(self.mktemp())
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_BROKER": self.broker.address, "MEMORY": str(memory)}
        command = [sys.executable, "-c", PROGRAM, "consume", topic, "--exit-at-end", *options]
        done = subprocess.run(command, capture_output=True, env=env, timeout=PATIENCE, check=False)
        most = int(memory.read_text().split("VmHWM:")[1].split()[0]) * 1024
        return done.returncode, done.stdout, done.stderr.decode(), most
