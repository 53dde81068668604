"""verify, dump and repair, on the files of a real broker and through the broker."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.integration.commands.rig import CliTestCase


class ToolsTests(CliTestCase):
    """A log with one damaged byte."""

    def segment(self) -> Path:
        """Return the path of the topic's only segment."""
        (segment,) = Path(self.broker.data, "t-0").glob("*.log")
        return segment

    def damage(self, at: int) -> None:
        """Change a byte in the file that the broker serves."""
        descriptor = os.open(self.segment(), os.O_RDWR)
        try:
            (byte,) = os.pread(descriptor, 1, at)
            os.pwrite(descriptor, bytes([byte ^ 1]), at)
        finally:
            os.close(descriptor)

    def test_a_serving_broker_repairs_its_log(self) -> None:
        """Consumers fail at the damage before, and get all other messages afterwards, without a restart."""
        self.logd("produce", "t", "--no-timestamps", given=b"".join(b"line %d\n" % number for number in range(100)))
        self.assertIn(b"100 entries", self.logd("verify", self.broker.data))
        self.damage(15 * 10 + 10)  # the lines 0 to 9 take 15 bytes each
        self.logd("consume", "t", "--exit-at-end", status=1)
        self.assertIn(b"(id 150)", self.logd("verify", self.broker.data, status=1))
        self.logd("repair", self.broker.data, "--yes", status=1)
        self.assertIn("in use", self.errors)
        address = self.broker.address
        self.assertIn(b"id 150, 16 bytes", self.logd("repair", "--broker", address, "t", "--dry-run", status=1))
        self.logd("repair", "--broker", address, "t", status=1)
        self.assertIn("give --yes", self.errors)
        found = json.loads(self.logd("repair", "--broker", address, "t", "0", "--yes", "--json"))
        (partition,) = found["partitions"]
        self.assertEqual((found["sound"], partition["damages"], partition["state"]), (True, 1, "served"))
        expected = b"".join(b"line %d\n" % number for number in range(100) if number != 10)
        self.assertEqual(self.logd("consume", "t", "--exit-at-end"), expected)
        self.logd("produce", "t", given=b"more\n")
        self.assertIn(b"1 gap of", self.logd("verify", self.broker.data))
        self.logd("repair", "--broker", address, "none", status=1)
        self.logd("repair", "--broker", address, "t", "7", status=1)

    def test_the_files_of_a_stopped_broker_are_repaired(self) -> None:
        """Its next start serves the messages behind the damage; `dump` shows those inside a compressed set."""
        self.logd("produce", "t", "--compression", "zstd", given=b"one%s\ntwo\n" % (b"!" * 200))
        self.logd("produce", "t", given=b"three\nfour\n")
        self.assertEqual(self.broker.stop(), 0)
        inside = self.logd("dump", str(self.segment()), "--expand", "--json").splitlines()
        self.assertEqual(
            [json.loads(line)["payload"] for line in inside], [None, "one" + "!" * 57, "two", "three", "four"]
        )
        self.damage(20)
        self.logd("repair", self.broker.data, "--yes")
        self.broker.start()
        self.assertEqual(self.logd("consume", "t", "--exit-at-end"), b"three\nfour\n")
