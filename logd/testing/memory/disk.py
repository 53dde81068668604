"""The state of a file on the disk and in the page cache: the part of the double that a loss of power affects."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from attrs import define, field

#: The size of the pieces that a crash tears a write into; small, as the logs in these tests are.
PIECE = 16
#: The largest file: a disk in memory keeps no holes.
LARGEST_FILE = 1 << 33


class PowerLoss(BaseException):
    """The process is gone in the middle of an operation. No ``except Exception`` may stop it."""


@define(eq=False)
class Inode:
    """A file: its content in the page cache, its content on the disk, and the changes in between."""

    data: bytearray = field(factory=bytearray)
    disk: bytes = b""
    #: ("write", position, bytes) or ("truncate", size, b"") since the last sync, in order.
    pending: list[tuple[str, int, bytes]] = field(factory=list)
    modified: float = 0.0
    #: A sync failed: the cache has clean pages that the disk never got.
    sync_failed: bool = False
    #: The number of failed writes so far; each open file is told once of those since it was opened.
    failures: int = 0
    locked: bool = False

    def write(self, position: int, data: bytes) -> None:
        """Change the cache, and remember the change."""
        self.pending.append(("write", position, bytes(data)))
        apply_change(self.data, self.pending[-1])

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros."""
        self.pending.append(("truncate", size, b""))
        apply_change(self.data, self.pending[-1])

    def sync(self) -> None:
        """Bring the disk up to date."""
        if self.sync_failed:  # only dirty pages are written
            disk = bytearray(self.disk)
            for change in self.pending:
                apply_change(disk, change)
            self.disk = bytes(disk)
        else:
            self.disk = bytes(self.data)
        self.pending.clear()

    def fail(self, random: Random) -> None:
        """Let the kernel fail to write the changes: the cache's pages become clean, and the disk has any part."""
        self.disk = bytes(survivors(self.disk, self.pending, random))
        self.pending.clear()
        self.sync_failed = True
        self.failures += 1

    def lose(self, random: Random) -> None:
        """Set the disk's content to what a loss of power may leave of it."""
        self.disk = bytes(survivors(self.disk, self.pending, random))
        self.pending.clear()


def apply_change(data: bytearray, change: tuple[str, int, bytes]) -> None:
    """Apply a pending change to ``data``."""
    kind, position, new = change
    if kind == "truncate":
        del data[position:]
        data.extend(bytes(position - len(data)))
    else:
        data.extend(bytes(max(0, position - len(data))))
        data[position : position + len(new)] = new


def survivors(disk: bytes, pending: Sequence[tuple[str, int, bytes]], random: Random) -> bytearray:
    """Return what a loss of power may leave of a file: the disk's content and any part of the pending changes."""
    data = bytearray(disk)
    style = random.choice(["all", "none", "prefix", "scattered", "scattered"])
    if style == "all":
        kept = list(pending)
    elif style == "none":
        kept = []
    elif style == "prefix":
        kept = list(pending[: random.randint(0, len(pending))])
        if kept and kept[-1][0] == "write":
            kind, position, new = kept.pop()
            kept.append((kind, position, new[: random.randint(0, len(new))]))
    else:
        kept = []
        for kind, position, new in pending:
            if kind == "truncate":
                if random.random() < 0.5:
                    kept.append((kind, position, new))
                continue
            for at in range(0, len(new), PIECE):
                if random.random() < 0.6:
                    kept.append((kind, position + at, new[at : at + PIECE]))
    for change in kept:
        apply_change(data, change)
    return data


@define(eq=False)
class Directory:
    """A directory: names in the cache, names on the disk, and the changes in between."""

    names: dict[str, Inode | Directory] = field(factory=dict)
    disk: dict[str, Inode | Directory] = field(factory=dict)
    #: Each change removes names and sets names, atomically.
    pending: list[tuple[tuple[str, ...], dict[str, Inode | Directory]]] = field(factory=list)

    def holds(self, inode: Inode) -> bool:
        """Return whether a file has a name here or below."""
        return any(node is inode or (isinstance(node, Directory) and node.holds(inode)) for node in self.names.values())

    def change(self, removed: tuple[str, ...], added: dict[str, Inode | Directory]) -> None:
        """Change the names, and remember the change."""
        self.pending.append((removed, added))
        rename_in(self.names, removed, added)

    def sync(self) -> None:
        """Bring the names on the disk up to date."""
        self.disk = dict(self.names)
        self.pending.clear()

    def lose(self, random: Random) -> None:
        """Keep any part of the changes, and apply the loss to everything below."""
        for removed, added in self.pending:
            if random.random() < 0.5:
                rename_in(self.disk, removed, added)
        self.pending.clear()
        self.names = dict(self.disk)
        for node in self.names.values():
            node.lose(random)
            if isinstance(node, Inode):
                node.data = bytearray(node.disk)
                node.sync_failed = False


def rename_in(
    names: dict[str, Inode | Directory], removed: tuple[str, ...], added: dict[str, Inode | Directory]
) -> None:
    """Remove names and add names."""
    for name in removed:
        names.pop(name, None)
    names.update(added)
