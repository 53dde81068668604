"""Holds the files of the coordination tree to docs/protocol.md."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.records import OPEN_ACL, Acl, Permission
from logd.coord.server.storage.change_codec import decode_change, decode_pieces, encode_change, encode_pieces
from logd.coord.server.storage.change_file import ChangeFileHead, decode_head, encode_head, encode_record
from logd.coord.server.storage.folder import changes_name, snapshot_name
from logd.coord.server.storage.snapshot_file import decode_snapshot, encode_snapshot
from logd.coord.tree.changes import (
    AclReplaced,
    Change,
    DataReplaced,
    NodeMade,
    NodeRemoved,
    SessionClosed,
    SessionOpened,
)
from logd.coord.tree.nodes import Node
from logd.coord.tree.sessions import TreeSession

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol.md"
TIME = 1320969600000
SALT = bytes(range(1, 9))
PASSWORD = bytes(range(16))
READ_ONLY = (Acl(Permission.READ, "world", "anyone"),)

CHANGES = {
    "change 1, session opened": Change(1, TIME, 1, (SessionOpened(10_000, PASSWORD),)),
    "change 2, node made": Change(2, TIME, 1, (NodeMade("/a", b"hi", OPEN_ACL, True),)),
    "change 3, data and acl replaced": Change(3, TIME, 1, (DataReplaced("/a", b"ho"), AclReplaced("/a", READ_ONLY))),
    "change 4, node removed": Change(4, TIME, 1, (NodeRemoved("/a"),)),
    "change 5, session closed": Change(5, TIME, 1, (SessionClosed(),)),
}
HEAD = f"head of {changes_name(0)}"
RECORD = "record of change 5"
SNAPSHOT = snapshot_name(3)
SESSION = TreeSession(1, 10_000, PASSWORD)
NODE = Node(b"hi", OPEN_ACL, 2, 3, TIME, TIME, 1, 0, 1, 0, 2)


def vectors() -> dict[str, bytes]:
    """Return the bytes of the hex digits in the block fenced as ``tree``, by name."""
    found: dict[str, str] = {}
    (block,) = re.findall(r"```tree\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    name = ""
    for line in block.splitlines():
        start, _, digits = line.partition("  ")
        name = start or name
        found[name] = found.get(name, "") + re.sub(r"\s", "", digits)
    return {name: bytes.fromhex(digits) for name, digits in found.items()}


class FilesTests(SynchronousTestCase):
    """The vectors of the page, against the code."""

    def setUp(self) -> None:
        """Read the page."""
        self.vectors = vectors()

    def test_the_page_has_exactly_the_vectors_held_here(self) -> None:
        """A vector that no test reads would grow old unseen."""
        self.assertEqual(set(self.vectors), {*CHANGES, HEAD, RECORD, SNAPSHOT})

    def test_changes_have_the_bytes_of_the_page(self) -> None:
        """They are decoded from them too."""
        for name, change in CHANGES.items():
            self.assertEqual((name, encode_change(change)), (name, self.vectors[name]))
            self.assertEqual(decode_change(change.zxid, self.vectors[name]), change)

    def test_head_and_record_have_the_bytes_of_the_page(self) -> None:
        """The head is decoded too."""
        self.assertEqual(encode_head(ChangeFileHead(0, SALT)), self.vectors[HEAD])
        self.assertEqual(decode_head(self.vectors[HEAD]), ChangeFileHead(0, SALT))
        last = self.vectors["change 5, session closed"]
        self.assertEqual(encode_record(SALT, 5, 4, last), self.vectors[RECORD])

    def test_a_snapshot_has_the_bytes_of_the_page(self) -> None:
        """It is decoded from them too."""
        content = b"".join(encode_snapshot(3, encode_pieces([SESSION], {"/a": NODE})))
        self.assertEqual(content, self.vectors[SNAPSHOT])
        zxid, pieces = decode_snapshot(content)
        self.assertEqual((zxid, decode_pieces(pieces)), (3, ([SESSION], {"/a": NODE})))

    def test_unknown_kinds_and_cut_contents_are_refused(self) -> None:
        """They may be a later release's."""
        for name in CHANGES:
            whole = self.vectors[name]
            self.assertRaises(ValueError, decode_change, 1, whole + b"\x63")
        self.assertRaises(ValueError, decode_pieces, [b"\x63"])
        self.assertRaises(ValueError, decode_pieces, [b"\x02\0"])
