"""Tests of logd.backup.backup_file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.backup.backup_file import Backup, BadBackup, encode, read_backup, write_backup

NODES = {
    "/cluster": b'{"uuid": "c"}',
    "/brokers/topics/t": b'{"uuid": "u", "partitions": {"0": [1]}, "settings": {}}',
    "/brokers/stored/u/1": b'{"instance": "i", "ends": {"0": 4096}}',
    "/consumers/g": b"",
    "/consumers/g/offsets/t/0": b"120",
    "/consumers/g/metadata/t/0": b"\xff\x00",
    "/consumers/g/generation": b"",
    "/producers/ids": b"3000",
    "/security/users/alice": b'{"scram": "..."}',
    "/schemas/ids/1": '{"text": "\u00e9\u2028"}'.encode(),
}
BACKUP = Backup("c", 1_764_000_000_000, 1_764_000_000_123, NODES)


class BackupFileTests(SynchronousTestCase):
    """A file that is written, read, and harmed."""

    def setUp(self) -> None:
        """Write a backup."""
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.path = str(self.folder / "logd.backup")
        write_backup(self.path, BACKUP, replace=False)

    def refused(self, content: bytes) -> str:
        """Return the reason for which a file with this content is refused."""
        Path(self.path).write_bytes(content)
        with self.assertRaises(BadBackup) as caught:
            read_backup(self.path)
        return str(caught.exception)

    def test_it_is_read_as_it_was_written(self) -> None:
        """Whatever the bytes of the nodes; it is for its owner alone, and nothing else is left in the folder."""
        self.assertEqual(read_backup(self.path), BACKUP)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertEqual(os.listdir(self.folder), ["logd.backup"])

    def test_a_file_is_replaced_only_when_asked(self) -> None:
        """And then at once; a folder that is not there is an error."""
        other = evolve(BACKUP, cluster="d", nodes={})
        with self.assertRaises(BadBackup):
            write_backup(self.path, other, replace=False)
        self.assertEqual(read_backup(self.path), BACKUP)
        write_backup(self.path, other, replace=True)
        self.assertEqual(read_backup(self.path), other)
        self.assertEqual(os.listdir(self.folder), ["logd.backup"])
        with self.assertRaises(OSError):
            write_backup(f"{self.path}/no/folder", BACKUP, replace=True)

    def test_only_a_file_is_replaced(self) -> None:
        """A device or a pipe of that name stays what it is."""
        path = str(self.folder / "pipe")
        os.mkfifo(path)
        with self.assertRaises(BadBackup):
            write_backup(path, BACKUP, replace=True)
        self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))

    def test_every_cut_is_found(self) -> None:
        """After any number of bytes but all of them."""
        whole = Path(self.path).read_bytes()
        for length in range(len(whole)):
            self.refused(whole[:length])

    def test_every_changed_byte_is_found(self) -> None:
        """In the checksum as well."""
        whole = Path(self.path).read_bytes()
        for place in range(len(whole)):
            changed = bytearray(whole)
            changed[place] ^= 1
            self.refused(bytes(changed))

    def test_a_damaged_line_is_named_and_not_shown(self) -> None:
        """It may be that of a user's verifiers, and errors of a daily backup go to logs and mail."""
        lines = Path(self.path).read_bytes().splitlines(keepends=True)
        place = next(number for number, line in enumerate(lines) if b"/security/users/alice" in line)
        lines[place] = lines[place].replace(b"{", b"", 1)
        told = self.refused(b"".join(lines))
        self.assertIn(f"line {place + 1} is not JSON", told)
        self.assertNotIn("scram", told)

    @given(st.binary(max_size=200))
    def test_any_bytes_are_refused(self, content: bytes) -> None:
        """With one kind of error."""
        self.refused(content)

    def test_lines_that_are_added_or_left_out(self) -> None:
        """The checksum counts the lines."""
        lines = Path(self.path).read_bytes().splitlines(keepends=True)
        self.assertIn("checksum", self.refused(b"".join([lines[0], *lines[2:]])))
        self.assertIn("again", self.refused(b"".join([*lines[:2], lines[1], *lines[2:]])))
        self.assertIn("more behind", self.refused(b"".join([*lines, b"\n"])))

    def test_a_later_format_is_named(self) -> None:
        """With both versions."""
        self.assertIn("format 2, made by logd '9.0'", self.refused(b'{"logd_backup": 2, "logd": "9.0"}\n'))

    def test_nodes_that_are_not_those_of_a_backup(self) -> None:
        """A file that was made to do harm writes nowhere else, and no value that logd does not know."""
        for path, data in (
            ("/zookeeper/quota", ""),
            ("/brokers/ids/1", "{}"),
            ("/security/secret", "x"),
            ("/security/../brokers/ids/1", "{}"),
            ("/security//users", ""),
            ("security/users/a", ""),
            ("/consumers/g/owners/t/0", "me"),
            ("/consumers/g/offsets/t/0", "-1"),
            ("/consumers/g/offsets/t/x", "1"),
            ("/brokers/topics/t", "{}"),
            ("/brokers/topics/a b", NODES["/brokers/topics/t"].decode()),
            ("/brokers/stored/u/1", '{"instance": "i", "ends": {"0": -1}}'),
            ("/schemas" + "/a" * 20, ""),
        ):
            lines = b"".join(encode(evolve(BACKUP, nodes={path: data.encode()})))
            self.assertIn("line 2", self.refused(lines), path)
        broken = json.dumps({"path": "/schemas/ids/1", "base64": "%%%"})
        self.assertIn("line 2", self.refused(next(iter(encode(BACKUP))) + broken.encode() + b"\n"))
