"""A random life in which the collector is away now and then, while its logs are rotated, compressed and removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from logd.collect.read_mark import checksum
from logd.collect.source import SourceFile
from logd.collect.state import decode_state
from tests.collect.doubles import DEVICE, Node
from tests.collect.simulation import KEPT, LOGS, Broken, Life


@define(eq=False)
class AbsentLife(Life):
    """A life in which every line arrives that is there when the collector returns, and each loss is reported."""

    #: True for a log whose rotated files are named after days.
    dated: dict[str, bool] = field(factory=dict)
    day: int = 20111111
    rotations_missed: int = 0
    #: The number of absences after which lines were gone.
    destructive: int = 0
    #: Files that the collector knew when it ended, and copies of them.
    known_files: set[Node] = field(factory=set)
    #: Lines of dated files that were removed before a collector had seen them.
    untraced: set[bytes] = field(factory=set)

    def more(self) -> list[Callable[[], None]]:
        """Add absences to the actions of ``Life``."""
        self.dated = {path: self.random.random() < 0.4 for path in LOGS}
        return [self.leave]

    def shift(self, path: str) -> str:
        """Let the collector read everything, and name the rotated file as it is named in an absence."""
        self.settle()
        return self.free_name(path)

    def check_notices(self) -> None:
        """Check nothing at the end, since each absence checks its own notices."""

    def leave(self) -> None:
        """End the collector; let logs grow, be rotated, compressed and removed; start it again."""
        self.killed += 1
        self.flying.clear()
        self.unanswered.clear()
        self.disk.crash()
        before = {path: bytes(node.data) for path, node in self.disk.names.items()}
        known = decode_state(self.state or b"", "t").sources
        identities = {source.identity for source in known}
        self.known_files = {node for node in self.disk.names.values() if (DEVICE, node.inode) in identities}
        for _ in range(self.random.choice([0, 1, 2, 3, 5, 8, 13])):
            path = self.random.choice(LOGS)
            what = self.random.randint(0, 2)
            if what == 0:
                self.write()
            elif what == 1:
                self.rotate_away(path)
            else:
                self.compress_away()
        there = {line for node in self.disk.names.values() for line in self.held(bytes(node.data))}
        written = {piece for lines in self.written.values() for piece in lines}
        gone = written - there - set(self.delivered) - self.gone
        self.gone |= gone
        said = len(self.notices)
        self.start()
        if self.random.random() < 0.7:
            self.settle()
        losses = [notice for notice in self.notices[said:] if "lost" in notice]
        if bool(losses) != bool(self.follower.tracker.losses):
            raise Broken(f"{losses} are counted as {self.follower.tracker.losses}")
        if gone:
            self.destructive += 1
            # A log that came and went without a trace cannot be known of, nor can it be known whether an empty file is
            # the one that was found, if another got its inode. A dated file that was removed before a collector saw it
            # leaves no trace, either: days may be missing between two names because the log was not rotated.
            inodes = {(DEVICE, node.inode) for node in self.disk.names.values()}
            newest = {source.name: source for source in known}
            followed = {
                name for name, source in newest.items() if source.known.head_bytes or source.identity not in inodes
            }
            if not losses and any(line.startswith(path.encode()) for line in gone - self.untraced for path in followed):
                raise Broken(f"{len(gone)} lines are gone, and nothing was said")
        if losses and not gone and not self.is_doubtful(known, before):
            raise Broken(f"nothing is gone, and it is said: {losses}")

    def held(self, data: bytes) -> list[bytes]:
        """Return the pieces of lines of a file."""
        return [piece for line in data.split(b"\n") for piece in self.pieces(line)]

    def is_doubtful(self, known: Sequence[SourceFile], before: dict[str, bytes]) -> bool:
        """Return whether a file is gone of which a collector cannot know that it was read to its end."""
        plain = {(DEVICE, node.inode): bytes(node.data) for path, node in self.disk.names.items() if path[-1] != "z"}
        now = list(plain.values())
        final = []
        newest = {source.name: source for source in known}
        for source in known:
            mark = source.known
            content = plain.get(source.identity, b"")
            if source is not newest[source.name] and mark.position == source.sound_size:
                final.append(mark)
            elif not mark.head_bytes or checksum(content[: mark.head_bytes]) != mark.head:
                return True
        return any(
            data
            and not any(each.startswith(data) for each in now)
            and not any(checksum(data[: mark.head_bytes]) == mark.head for mark in final if mark.head_bytes)
            for data in before.values()
        )

    def rotate_away(self, path: str) -> None:
        """Rotate while no collector runs, in one of the usual ways; the oldest file may be removed."""
        if path not in self.disk.names:
            self.disk.create(path)
            return
        self.rotations_missed += 1
        self.finish(path)
        target = self.free_name(path)
        self.epochs.pop(path, None)
        if self.random.random() < 0.3:
            self.may_repeat |= len(self.disk.names[path].data) < 64
            self.disk.copy(path, target)
            self.disk.truncate(path)
            if self.disk.names[path] in self.known_files:
                self.known_files.add(self.disk.names[target])
        else:
            self.disk.rename(path, target)
            if self.random.random() < 0.8:
                self.disk.create(path)

    def free_name(self, path: str) -> str:
        """Make room for a rotated file: shift the numbers, or take the next day; remove the oldest."""
        if self.dated[path]:
            self.day += 1
            days = sorted(name for name in self.disk.names if name.startswith(f"{path}-") and not name.endswith("z"))
            if len(days) > KEPT and self.random.random() < 0.3:
                oldest = self.disk.names[days[0]]
                if oldest not in self.known_files:
                    self.untraced |= set(self.held(bytes(oldest.data)))
                self.disk.remove(days[0])
            return f"{path}-{self.day}"
        for ending in ("", ".gz", ".xz"):
            self.disk.remove(f"{path}.{KEPT + 1}{ending}")
            for number in range(KEPT, 0, -1):
                if f"{path}.{number}{ending}" in self.disk.names:
                    self.disk.rename(f"{path}.{number}{ending}", f"{path}.{number + 1}{ending}")
        return f"{path}.1"

    def compress_away(self) -> None:
        """Compress a rotated file while no collector runs."""
        rotated = [name for name in self.disk.names if name not in LOGS and not name.endswith("z")]
        if rotated:
            path = self.random.choice(sorted(rotated))
            ending = self.random.choice([".gz", ".xz"])
            self.disk.remove(path + ending)
            self.disk.compress(path, ending)
