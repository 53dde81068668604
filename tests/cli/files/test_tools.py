"""Tests of the commands verify, dump and repair, on a data directory of the local disk."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

from click import unstyle
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.main import main
from logd.cli.spark.import_command import patient
from logd.cli.terminal import prompts as asking
from logd.cli.terminal.byte_progress import BytesProgress
from logd.log.disk.local_files import LocalFiles
from logd.log.disk.names import SECURED
from logd.log.epochs.mark import EpochMark, encode_epoch_mark
from logd.log.recovery.checkpoint import Checkpoint
from logd.log.store.topics_file import TopicsFile
from logd.spark.blocking.cluster import ClusterSettings
from logd.topic import TopicEntry
from tests.cli.terminal.doubles import Terminal
from tests.log.entries import gap, plain

ENTRY = plain(b"eleven more")
META = b'{"format": 1, "broker_id": 0, "instance": "i"}\n'


class ToolsTestCase(SynchronousTestCase):
    """A data directory with two segments of three entries of 20 bytes."""

    def setUp(self) -> None:
        """Make the directory and its segments."""
        self.path = Path(self.mktemp()).resolve()
        self.folder = self.path / "t-0"
        self.folder.mkdir(parents=True)
        (self.path / "meta").write_bytes(META)
        (self.folder / "checkpoint").write_bytes(Checkpoint(0, 120).encode())
        self.segments = [self.folder / f"{start:020d}.log" for start in (0, 60)]
        for segment in self.segments:
            segment.write_bytes(ENTRY * 3)

    def logd(self, *arguments: Any, status: int = 0, given: str | None = None) -> str:
        """Run a command, assert its status, and return its output."""
        result = CliRunner().invoke(main, [str(each) for each in arguments], input=given)
        self.assertEqual(result.exit_code, status, (result.output, result.exception))
        self.out = result.stdout
        return str(result.output)

    def damage(self, segment: int, at: int) -> None:
        """Change one byte of a segment."""
        data = bytearray(self.segments[segment].read_bytes())
        data[at] ^= 1
        self.segments[segment].write_bytes(data)

    def content(self) -> bytes:
        """Return the bytes of both segments."""
        return b"".join(segment.read_bytes() for segment in self.segments)


class VerifyTests(ToolsTestCase):
    """``logd verify``."""

    def test_a_sound_path_is_status_0_and_one_line(self) -> None:
        """The path may be a data directory, a partition or a segment."""
        for path, count in ((self.path, 6), (self.folder, 6), (self.segments[1], 3)):
            self.assertIn(f"{count} entries", self.logd("verify", path, "--quiet"))
            self.assertEqual(self.out.count("\n"), 1)

    def test_damage_is_status_1_with_its_place(self) -> None:
        """File, position and id are what repair and a report need."""
        self.damage(1, 35)
        text = self.logd("verify", self.path, status=1)
        self.assertIn(
            f"{self.segments[1]}: a damaged entry at file position 20 (id 80), 20 bytes: checksum mismatch", text
        )
        self.assertIn("NOT SOUND", text)

    def test_verify_prints_one_object_for_scripts(self) -> None:
        """Remarks that are no damage are in it as well."""
        self.damage(0, 15)
        (self.path / "notes").write_text("x")
        (self.path / SECURED).write_text("the broker's own")
        self.logd("verify", self.path, "--json", status=1)
        found = json.loads(self.out)
        expected = {"path": str(self.segments[0]), "position": 0, "id": 0, "bytes": 20, "kind": "payload"}
        self.assertEqual(found["findings"], [{**expected, "reason": "checksum mismatch", "wrong": True}])
        self.assertEqual((found["sound"], found["segments"], found["entries"], found["bytes"]), (False, 2, 5, 120))
        self.assertIn(
            {"path": str(self.path / "notes"), "text": "does not belong to logd", "wrong": False}, found["remarks"]
        )
        self.assertNotIn(str(self.path / SECURED), [each["path"] for each in found["remarks"]])

    def test_a_directory_in_use_can_be_verified(self) -> None:
        """No lock is needed, and an append under way is no damage."""
        (self.folder / "checkpoint").write_bytes(Checkpoint(0, 100).encode())
        with (self.path / "meta").open("r+b") as meta, self.segments[1].open("ab") as last:
            fcntl.flock(meta, fcntl.LOCK_EX)
            last.write(ENTRY[:13])
            last.flush()
            before = self.content()
            self.assertIn("note: ", self.logd("verify", self.path))
            self.assertEqual(self.content(), before)

    def test_a_foreign_folder_is_refused(self) -> None:
        """A wrong path would otherwise verify as sound, with nothing in it."""
        self.assertIn("is not a data directory", self.logd("verify", self.path.parent, status=1))
        self.logd("verify", self.path / "none", status=2)

    def test_a_terminal_shows_progress(self) -> None:
        """Bytes done and in all are what a person waits for."""
        terminal = Terminal()
        self.patch(sys, "stderr", terminal)
        with BytesProgress("verifying", 1000) as progress:
            progress.reach(500)
        self.assertIn("verifying", terminal.getvalue())
        self.assertIn("0.5/1.0 kB", unstyle(terminal.getvalue()))

    def test_waiting_for_brokers_is_shown(self) -> None:
        """The words go when one of them answers."""
        terminal = Terminal()
        self.patch(sys, "stderr", terminal)
        with BytesProgress("importing", 1000) as progress:
            patient(progress)(ClusterSettings(brokers="[::1]:6667")).sleep(0)
        self.assertIn("waiting for brokers, at first [::1]:6667", unstyle(terminal.getvalue()))
        with BytesProgress("importing", 1000) as progress:
            patient(progress)(ClusterSettings(brokers="none:6667")).sleep(0)
            progress.reach(500)
        self.assertNotIn("none:6667", unstyle(terminal.getvalue()).splitlines()[-1])


class DumpTests(ToolsTestCase):
    """``logd dump``."""

    def test_dump_prints_a_row_for_each_entry(self) -> None:
        """The rows may begin at a position and end after a number of them."""
        self.damage(1, 25)
        rows = [line.split("\t") for line in self.logd("dump", self.segments[1]).splitlines()]
        self.assertEqual([row[0] for row in rows], ["60", "80", "100"])
        self.assertEqual(rows[0], ["60", "80", "0", "none", "20", "", "", "", "ok", "eleven more"])
        self.assertEqual(rows[1][8], "checksum mismatch")
        self.assertEqual(len(self.logd("dump", self.segments[1], "--from", 61).splitlines()), 2)
        self.assertEqual(len(self.logd("dump", self.segments[1], "--max", 1).splitlines()), 1)
        self.assertEqual(len(self.logd("dump", self.segments[1], "--max", 1 << 64).splitlines()), 3)
        self.assertIn("eleve...", self.logd("dump", self.segments[1], "--payload-bytes", 5))

    def test_dump_prints_an_object_in_each_line(self) -> None:
        """Scripts read them one by one."""
        self.logd("dump", self.segments[0], "--json")
        records = [json.loads(line) for line in self.out.splitlines()]
        self.assertEqual(
            [(r["id"], r["next"], r["crc_ok"]) for r in records], [(0, 20, True), (20, 40, True), (40, 60, True)]
        )

    def test_dump_shows_the_mark_of_a_leader_epoch(self) -> None:
        """Without its fields it would look like a compressed set without a message."""
        self.segments[0].write_bytes(encode_epoch_mark(EpochMark(5, 2)) + ENTRY)
        rows = [line.split("\t") for line in self.logd("dump", self.segments[0], "--expand").splitlines()]
        self.assertEqual([row[9] for row in rows], ["leader epoch 5 of broker 2", "eleven more"])
        self.logd("dump", self.segments[0], "--json", "--max", 1)
        record = json.loads(self.out)
        self.assertEqual((record["leader_epoch"], record["leader"]), (5, 2))

    def test_dump_writes_control_characters_out(self) -> None:
        """A payload must not command the terminal of an operator."""
        self.segments[0].write_bytes(plain(b"\x1b[2Jgone") + ENTRY[:3])
        self.assertIn("\\x1b[2Jgone", self.logd("dump", self.segments[0]))

    def test_dump_refuses_a_file_without_a_position(self) -> None:
        """The name of a segment is the position at which it begins."""
        self.assertIn("20 digits", self.logd("dump", self.folder / "checkpoint", status=1))


class RepairTests(ToolsTestCase):
    """``logd repair PATH``."""

    def setUp(self) -> None:
        """Damage an entry."""
        super().setUp()
        self.damage(0, 35)
        self.expected = ENTRY + gap(20)[:9] + self.segments[0].read_bytes()[29:] + ENTRY * 3

    def test_repair_makes_a_gap_of_damage(self) -> None:
        """The time of last change stays, for retention; afterwards all is sound."""
        os.utime(self.segments[0], (1000, 1000))
        self.assertIn("sound", self.logd("repair", self.path, "--yes"))
        self.assertEqual(self.content(), self.expected)
        self.assertEqual(self.segments[0].stat().st_mtime, 1000)
        self.logd("verify", self.path)
        self.logd("repair", self.path)

    def test_a_replica_is_not_repaired(self) -> None:
        """A gap would make it differ from the others, from which its broker can take the bytes."""
        self.damage(0, 15)
        (self.folder / "epochs").write_bytes(b"")
        before = self.content()
        for path in (self.path, self.folder, self.segments[0]):
            text = self.logd("repair", path, "--yes", "--force", status=1)
            self.assertIn(f"{self.folder} is not repaired here", text)
            self.assertIn("start this broker", text)
            self.assertEqual(self.content(), before)

    def test_a_dry_run_changes_nothing(self) -> None:
        """No lock is needed, and the status is 1 when there is something to do."""
        before = self.content()
        with (self.path / "meta").open("r+b") as meta:
            fcntl.flock(meta, fcntl.LOCK_EX)
            self.assertIn("problems found: 1;", self.logd("repair", self.path, "--dry-run", status=1))
        self.assertEqual(self.content(), before)

    def test_repair_without_a_terminal_needs_yes(self) -> None:
        """Nothing is done, and the message names the option."""
        before = self.content()
        self.assertIn("give --yes", self.logd("repair", self.path, status=1))
        self.assertEqual(self.content(), before)

    def test_repair_asks_a_person_first(self) -> None:
        """Another answer than yes leaves everything as it is."""
        self.patch(asking, "is_person_there", lambda: True)
        before = self.content()
        self.assertIn("[y/N]", self.logd("repair", self.path, given="n\n", status=1))
        self.assertEqual(self.content(), before)
        self.logd("repair", self.path, given="y\n")
        self.assertEqual(self.content(), self.expected)

    def test_a_directory_in_use_is_not_repaired(self) -> None:
        """The message names the way through the broker."""
        before = self.content()
        with (self.path / "meta").open("r+b") as meta:
            fcntl.flock(meta, fcntl.LOCK_EX)
            for path in (self.path, self.folder, self.segments[0]):
                self.assertIn("logd repair --broker", self.logd("repair", path, "--yes", status=1))
        self.assertEqual(self.content(), before)

    def test_repair_prints_one_object_for_scripts(self) -> None:
        """The object counts what was mended, cut and left."""
        self.logd("repair", self.path, "--yes", "--json")
        found = json.loads(self.out)
        self.assertEqual((found["mended"], found["cut"], found["left"], len(found["findings"])), (1, 0, 0, 1))

    def test_only_force_cuts_unconfirmed_bytes(self) -> None:
        """Without a checkpoint nothing says how long the log was, so --yes is not enough."""
        (self.folder / "checkpoint").unlink()
        self.segments[1].write_bytes(ENTRY + b"\0\0\0\1" * 5 + ENTRY)
        text = self.logd("repair", self.path, "--yes", status=1)
        self.assertIn("Cut 40 bytes", text)
        self.assertEqual(len(self.segments[1].read_bytes()), 60)
        self.assertEqual(self.segments[0].read_bytes(), self.expected[:60])
        self.logd("repair", self.path, "--force")
        self.assertEqual(self.segments[1].read_bytes(), ENTRY)

    def test_a_wrong_index_is_removed(self) -> None:
        """The broker builds it anew."""
        index = self.folder / f"{0:020d}.index"
        index.write_bytes(b"not an index")
        self.logd("repair", self.path, "--yes")
        self.assertFalse(index.exists())

    def test_repair_takes_a_path_or_a_broker(self) -> None:
        """Other combinations of arguments are refused."""
        for arguments in ((self.path, "t"), ("--broker", "h:1", "t", "x"), ("--broker", "h:1", "a/b"), ()):
            self.logd("repair", *arguments, status=2)


class LostSegmentTests(ToolsTestCase):
    """Segments that are missing or short: verify shows them, and repair fills them."""

    def lose(self) -> None:
        """Lose the first segment, the end of the second, and 3 GiB behind it."""
        self.segments[0].unlink()
        self.segments[1].write_bytes(ENTRY)
        (self.folder / "checkpoint").write_bytes(Checkpoint(0, 3 << 30).encode())

    def test_verify_names_each_lost_range(self) -> None:
        """The text has the file and the bytes."""
        self.lose()
        text = self.logd("verify", self.path, status=1)
        self.assertIn(f"{self.segments[0]} is missing: bytes 0 to 60 are lost", text)
        self.assertIn(f"{self.segments[1]} has lost its end: bytes 80 to {3 << 30} are lost", text)

    def test_a_missing_folder_is_not_sound(self) -> None:
        """topics.json has its partition, and repair cannot make it sound, either."""
        TopicsFile(LocalFiles(), str(self.path)).write({"t": TopicEntry("u", {0: (0,), 1: (0,)})})
        for command in (("verify",), ("repair", "--yes")):
            text = self.logd(*command, self.path, status=1)
            self.assertIn(f"{self.path / 't-1'} is missing, although topics.json has it", text)

    def test_repair_fills_losses_with_gaps(self) -> None:
        """None is larger than 1 GiB or takes much room, and what is left keeps its ids."""
        self.lose()
        self.assertIn("problems found: 2;", self.logd("repair", self.path, "--dry-run", status=1))
        self.assertFalse(self.segments[0].exists())
        self.assertIn("Make gaps of 2 damaged places", self.logd("repair", self.path, status=1))
        self.assertIn("sound", self.logd("repair", self.path, "--yes"))
        text = self.logd("verify", self.path, "--json")
        found = json.loads(text)
        self.assertEqual((found["sound"], found["gaps"], found["gap_bytes"]), (True, 4, (3 << 30) - 20))
        self.assertEqual(found["entries"], 5)
        self.assertLess(sum(path.stat().st_blocks for path in self.segments), 200)
        rows = [json.loads(line) for line in self.logd("dump", self.segments[1], "--json").splitlines()]
        self.assertEqual([row["magic"] for row in rows], [0, 127, 127, 127])
        self.assertEqual((rows[0]["id"], rows[-1]["next"]), (60, 3 << 30))
        self.assertEqual(max(row["size"] for row in rows), 1 << 30)
