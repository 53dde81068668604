"""Tests of the commands verify, dump and repair where batches are among the entries."""

from __future__ import annotations

import json

from logd.log.recovery.checkpoint import Checkpoint
from tests.cli.files.test_tools import ToolsTestCase
from tests.log.entries import batch, gap, plain, record

BATCH = batch(record(b"hello"), record(b"world", 1), time=1_320_969_600_000)
PLAIN = plain(b"plain")


class BatchToolsTests(ToolsTestCase):
    """A data directory of format 2, whose first segment holds a batch between two others."""

    def setUp(self) -> None:
        """Write the batches, and the format that says so."""
        super().setUp()
        self.first = BATCH + PLAIN + BATCH + PLAIN
        self.segments[1].unlink()
        self.segments[0].write_bytes(self.first)
        (self.folder / "checkpoint").write_bytes(Checkpoint(0, len(self.first)).encode())
        (self.path / "meta").write_bytes(b'{"format": 2, "broker_id": 0, "instance": "i"}\n')

    def test_sound_batches_are_entries(self) -> None:
        """Verify counts a batch as one, and takes format 2 for what it is."""
        text = self.logd("verify", self.path)
        self.assertIn("4 entries", text)
        self.assertNotIn("meta", text)

    def test_dump_shows_a_batch_and_its_messages(self) -> None:
        """The messages follow with --expand, each with its own id, time and size of the payload."""
        rows = [json.loads(line) for line in self.logd("dump", self.segments[0], "--json").splitlines()]
        self.assertEqual(
            [(row["id"], row["magic"], row["size"]) for row in rows][:2], [(0, 3, len(BATCH)), (len(BATCH), 0, 14)]
        )
        lines = self.logd("dump", self.segments[0], "--json", "--expand", "--max", 3).splitlines()
        found = [(row["id"], row["inside"], row.get("payload"), row["timestamp"]) for row in map(json.loads, lines)]
        second = len(BATCH) - 1
        self.assertEqual(found[1:], [(0, True, "hello", 1_320_969_600_000), (second, True, "world", 1_320_969_600_000)])

    def test_a_damaged_batch_is_repaired(self) -> None:
        """It becomes a gap of its size, whichever part of it is damaged, and everything is sound then."""
        for at in (2, 5, 9, 14, 20, 40, len(BATCH) - 1):
            self.segments[0].write_bytes(self.first)
            self.damage(0, len(BATCH + PLAIN) + at)
            self.logd("verify", self.path, status=1)
            self.logd("repair", self.path, "--yes")
            start = len(BATCH + PLAIN)
            content = self.segments[0].read_bytes()
            self.assertEqual(content[start : start + 9], gap(len(BATCH))[:9], at)
            self.assertEqual(content[:start] + content[start + len(BATCH) :], BATCH + PLAIN * 2, at)
            self.assertIn("4 entries", self.logd("verify", self.path))
