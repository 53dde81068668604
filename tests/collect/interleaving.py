"""A writer that rotates its log between any two operations of the collector that follows it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random

from attrs import define, field

from logd.collect.cutting import Rules
from logd.collect.files import OpenFile, Seen
from logd.collect.follower import Follower, FollowSettings
from logd.collect.ledger import Ledger
from logd.collect.source import Piece
from logd.collect.state import decode_state, encode_state
from tests.collect.doubles import MemoryDisk
from tests.collect.simulation import Broken

LOG = "/logs/app.log"


@define(eq=False)
class InterruptedFile:
    """An open file; ``interrupt`` is called before each operation."""

    file: OpenFile
    interrupt: Callable[[], None]

    def seen(self) -> Seen:
        """Return the file's state, as OpenFile does."""
        self.interrupt()
        return self.file.seen()

    def read(self, position: int, count: int) -> bytes:
        """Read at a position, as OpenFile does."""
        self.interrupt()
        return self.file.read(position, count)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


@define
class InterruptedDisk:
    """A disk in memory; ``interrupt`` is called before each operation and before each file of a listing."""

    disk: MemoryDisk
    interrupt: Callable[[], None]

    def find(self, patterns: Sequence[str]) -> list[Seen]:
        """Return the files that match, as Files does."""
        self.interrupt()
        return list(self._stats([seen.path for seen in self.disk.find(patterns)]))

    def in_folder(self, folder: str, wanted: Callable[[str, int], bool]) -> list[Seen]:
        """Return the wanted files of a folder, as Files does."""
        self.interrupt()
        return list(self._stats([seen.path for seen in self.disk.in_folder(folder, wanted) or ()]))

    def at(self, path: str) -> Seen:
        """Return the file at a path, as Files does."""
        self.interrupt()
        return self.disk.at(path)

    def open(self, path: str) -> OpenFile:
        """Open a file, as Files does."""
        self.interrupt()
        return InterruptedFile(self.disk.open(path), self.interrupt)

    def _stats(self, paths: list[str]) -> Iterator[Seen]:
        for path in paths:
            self.interrupt()
            node = self.disk.names.get(path)
            if node is not None:
                yield self.disk.seen(path, node)


@define(eq=False)
class InterleavedLife:
    """One log from one seed: its writer removes nothing, so nothing may be lost, nor be called lost."""

    seed: int
    random: Random = field(init=False)
    disk: MemoryDisk = field(factory=MemoryDisk)
    now: float = 0.0
    follower: Follower = field(init=False)
    ledger: Ledger = field(init=False)
    settings: FollowSettings = field(init=False)
    state: bytes | None = None
    flying: deque[Piece] = field(factory=deque)
    delivered: list[bytes] = field(factory=list)
    written: list[bytes] = field(factory=list)
    notices: list[str] = field(factory=list)
    rotations: int = 0
    #: The share of the collector's operations before which the writer does something.
    haste: float = field(init=False)
    writing: Iterator[None] = field(init=False)
    #: The steps that the writer has left: each file costs the collector operations, between which further files come.
    steps: int = 150

    def __attrs_post_init__(self) -> None:
        self.random = Random(self.seed)
        self.haste = self.random.choice([0.02, 0.1, 0.4])
        self.settings = FollowSettings(
            patterns=["/logs/*"], rules=Rules(1000), open_files=self.random.choice([1, 3, 64]), gone=30.0, poll=0.05
        )
        self.writing = self.write()
        next(self.writing)
        self.start()

    def interrupt(self) -> None:
        """Let the writer do a step, perhaps several."""
        while self.steps and self.random.random() < self.haste:
            self.steps -= 1
            next(self.writing)

    def write(self) -> Iterator[None]:
        """Write and rotate for ever, one step on the disk at a time."""
        self.disk.create(LOG)
        while True:
            yield
            for _ in range(self.random.choice([1, 3, 30])):
                line = b"%07d %s" % (len(self.written), b"x" * self.random.choice([0, 10, 300]))
                self.written.append(line)
                if self.random.random() < 0.05:
                    self.disk.append(LOG, line[:5])
                    yield
                    line = line[5:]
                self.disk.append(LOG, line + b"\n")
            if self.random.random() < 0.3:
                self.rotations += 1
                rotated = f"{LOG}.{self.rotations}"
                if self.random.random() < 0.5:
                    node = self.disk.names[LOG]
                    self.disk.create(rotated)
                    yield
                    if self.random.random() < 0.3:
                        self.disk.copy(LOG, rotated, self.random.randint(0, len(node.data)))
                        yield
                    self.disk.fill(LOG, rotated)
                    yield
                    self.disk.truncate(LOG)
                else:
                    self.disk.rename(LOG, rotated)
                    yield
                    self.disk.create(LOG)

    def start(self) -> None:
        """Start a collector, from the state file if there is one."""
        restored = decode_state(self.state, "t") if self.state is not None else None
        disk = InterruptedDisk(self.disk, self.interrupt)
        self.follower = Follower(disk, lambda: self.now, self.settings, restored)
        self.ledger = Ledger()
        self.notices += self.follower.step(read=False).notices
        self.save()

    def save(self) -> None:
        """Let the collector write its state file."""
        self.state = encode_state("t", self.follower.tracker.state)

    def work(self) -> None:
        """Let the collector do one step."""
        self.now += 0.05
        harvest = self.follower.step(read=self.random.random() < 0.7 and len(self.flying) < 5)
        self.notices += harvest.notices
        for piece in harvest.pieces:
            self.ledger.sent(piece)
            self.flying.append(piece)

    def deliver(self) -> None:
        """Let the broker store a piece and acknowledge it."""
        if self.flying:
            piece = self.flying.popleft()
            self.delivered += piece.lines
            self.ledger.acknowledged(piece)

    def kill(self) -> None:
        """Kill the collector and start it again."""
        self.flying.clear()
        self.disk.crash()
        self.start()

    def run(self, steps: int) -> None:
        """Live, come to rest, and check. Raises Broken with the seed."""
        actions = [self.work] * 6 + [self.deliver] * 2 + [self.save] + [self.interrupt] * 3 + [self.kill]
        for _ in range(steps):
            self.random.choice(actions)()
        self.steps = 0
        for _ in range(1000):
            self.now += self.settings.poll
            harvest = self.follower.step()
            self.notices += harvest.notices
            for piece in harvest.pieces:
                self.ledger.sent(piece)
                self.flying.append(piece)
            while self.flying:
                self.deliver()
            if harvest.idle and not harvest.pieces:
                break
        missing = set(self.written) - set(self.delivered)
        lost = [each for each in self.notices if "lost" in each]
        if missing - set(self.written[-1:]) or lost:
            raise Broken(f"seed {self.seed}: {len(missing)} lines are missing; {lost}")
