"""Tests that docs/protocol.md has the files of a data directory as the code writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk import names
from logd.log.disk.local_files import LocalFiles
from logd.log.epochs.epoch_file import encode_epochs
from logd.log.epochs.history import EpochHistory, EpochStart
from logd.log.index.index_file import Boundary, encode_chunk, encode_header
from logd.log.producers.states import ProducerStates, SequencedBatch
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.recovery.flush_mark import encode_mark
from logd.log.store.meta import Meta
from logd.log.store.topics_file import TopicsFile
from logd.topic import TopicEntry

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "protocol.md"
UUID = "8f2d0f5e-3b1a-4c6d-9e70-a1b2c3d4e5f6"


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

    def test_meta_topics_and_epochs_are_as_documented(self) -> None:
        """The page quotes a file of each, byte for byte, and so the checksums in them."""
        folder = self.mktemp()
        os.mkdir(folder)
        settings: dict[str, int | str] = {"retention.ms": 3_600_000, "message.format": "0.7"}
        entry = TopicEntry(UUID, {0: (1,)}, settings)
        TopicsFile(LocalFiles(), folder).write({"clicks": entry})
        for line in Path(folder, names.TOPICS).read_text("utf-8").splitlines():
            self.assertIn(line, self.text)
        self.assertIn(Meta(1, "1c5a3e70-9d2b-4f81-a6c4-5b7e8f901234", 2).encode().decode(), self.text)
        epochs = encode_epochs(EpochHistory((EpochStart(0, 0), EpochStart(5, 4711)))).decode()
        self.assertIn('"' + epochs.replace("\n", "\\n") + '"', self.text)

    def test_the_producers_of_a_partition_are_as_documented(self) -> None:
        """The page has a file of one producer."""
        states = ProducerStates()
        states.found(SequencedBatch(7, 0, 0, 2), 4711, 1_320_969_600_000)
        (vector,) = re.findall(r"^producers((?:\s+[0-9a-f]{2,})+)$", self.text, re.M)
        self.assertEqual(bytes.fromhex("".join(vector.split())), states.encode(4711))

    def test_every_file_is_listed(self) -> None:
        """A person who finds a file in a data directory finds it here."""
        listed = {line.split()[0].rstrip("/") for line in self.text.split("```")[1].splitlines()[1:]}
        for name in names.NO_PARTITIONS:
            self.assertIn(name, listed)
        for name in (names.CHECKPOINT, names.MARK, names.PRODUCERS, names.EPOCHS, names.EPOCHS_COPY):
            self.assertIn(f"<topic>-<p>/{name}", listed)
        for form, is_known in (
            ("<topic>-<p>.<position>.beginning", names.is_beginning_name),
            ("<topic>-<p>.<position>.lost", names.is_lost_name),
            ("<uuid>.deleted", names.is_deleted_name),
        ):
            self.assertIn(form, listed)
            filled = form.replace("<topic>-<p>", "t-0").replace("<position>", str(1 << 40)).replace("<uuid>", UUID)
            self.assertTrue(is_known(filled), filled)

    def test_an_index_is_as_documented(self) -> None:
        """The page has the head and a chunk of an index."""
        boundaries = [
            Boundary(0, 1_320_969_600_000, -1),
            Boundary(4110, 1_320_969_600_250, 1_320_969_599_000),
        ]
        self.assertEqual(self.vectors, [encode_header(0), encode_chunk(boundaries)])
