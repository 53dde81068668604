"""Tests that docs/protocol.md has the files of a data directory as the code writes them."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.log.index.index_file import Boundary, encode_chunk, encode_header
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.recovery.flush_mark import encode_mark

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "protocol.md"


class FilesTests(SynchronousTestCase):
    """The vectors of the section Files."""

    def setUp(self) -> None:
        """Read the section, and decode its vectors."""
        self.text = PAGE.read_text(encoding="utf-8").split("\n## Files\n")[1]
        vectors = re.findall(r"^index \w+((?:\s+[0-9a-f]{8,})+)", self.text, re.M)
        self.vectors = [bytes.fromhex("".join(vector.split())) for vector in vectors]

    def test_checkpoint_and_mark_are_as_documented(self) -> None:
        """The page quotes both, byte for byte."""
        for content in (Checkpoint(0, 4711).encode(), Checkpoint(0, 4711, 42).encode(), encode_mark(4711)):
            self.assertIn('"' + content.decode().replace("\n", "\\n") + '"', self.text)

    def test_an_index_is_as_documented(self) -> None:
        """The page has the head and a chunk of an index."""
        boundaries = [
            Boundary(0, 1_320_969_600_000, -1),
            Boundary(4110, 1_320_969_600_250, 1_320_969_599_000),
        ]
        self.assertEqual(self.vectors, [encode_header(0), encode_chunk(boundaries)])
