"""A random life of some logs and of the collector that follows them: rotations, crashes, silent brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from attrs import define, field

from logd.collect.cutting import Rules
from logd.collect.follower import Follower, FollowSettings
from logd.collect.ledger import Ledger
from logd.collect.source import Piece
from logd.collect.state import decode_state, encode_state
from tests.collect.doubles import DEVICE, MemoryDisk

LOGS = ("/logs/a.log", "/logs/b.log")
KEPT = 2


class Broken(AssertionError):
    """An invariant does not hold."""


@define(eq=False)
class Life:
    """Drives everything from one seed.

    A writer may rename, copy and empty, remove and make anew. While the collector runs, lines are destroyed only after
    they were read and acknowledged. With ``crashes`` the collector is killed now and then.
    """

    seed: int
    crashes: bool = True
    random: Random = field(init=False)
    disk: MemoryDisk = field(factory=MemoryDisk)
    now: float = 0.0
    follower: Follower = field(init=False)
    ledger: Ledger = field(init=False)
    settings: FollowSettings = field(init=False)
    #: The state file; None before the first save.
    state: bytes | None = None
    #: Pieces on their way to the broker, and those that it has but whose answer is not there yet.
    flying: deque[Piece] = field(factory=deque)
    unanswered: deque[Piece] = field(factory=deque)
    #: The lines in the broker's log.
    delivered: list[bytes] = field(factory=list)
    #: Every complete line, by the file (not its name) that it was written to.
    written: dict[int, list[bytes]] = field(factory=dict)
    #: The beginning of a line, by path.
    begun: dict[str, bytes] = field(factory=dict)
    epochs: dict[str, int] = field(factory=dict)
    silent: bool = False
    killed: int = 0
    #: True if lines may be there twice although nothing was killed.
    may_repeat: bool = False
    notices: list[str] = field(factory=list)
    lines: int = 0
    wide: bool = field(init=False)
    #: Lines that were gone before a collector could read them.
    gone: set[bytes] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.random = Random(self.seed)
        self.wide = self.random.random() < 0.5
        self.settings = FollowSettings(
            patterns=["/logs/*.log*" if self.wide else "/logs/*.log"],
            rules=Rules(self.random.choice([40, 1000])),
            open_files=self.random.choice([1, 2, 64]),
            gone=self.random.choice([0.0, 5.0, 30.0]),
        )
        self.start()

    def run(self, steps: int) -> None:
        """Live, come to rest, and check. Raises Broken with the seed."""
        actions = [self.write] * 8 + [self.work] * 6 + [self.deliver] * 3 + [self.answer] * 3 + [self.save] * 2
        actions += [self.wait, self.wait, self.rotate, self.replace, self.compress, self.hush]
        if self.random.random() < 0.6:
            actions += [self.copy_and_empty]
        if self.crashes:
            actions += [self.kill]
        actions += self.more()
        try:
            for _ in range(steps):
                self.random.choice(actions)()
            self.settle()
            self.check()
        except Broken as error:
            raise Broken(f"seed {self.seed}: {error}; notices: {self.notices[-20:]}") from error

    def more(self) -> list[Callable[[], None]]:
        """Return the further actions of this kind of life."""
        return []

    def start(self) -> None:
        """Start a collector, from the state file if there is one."""
        restored = decode_state(self.state, "t") if self.state is not None else None
        self.follower = Follower(self.disk, lambda: self.now, self.settings, restored)
        self.ledger = Ledger()
        self.notices += self.follower.step(read=False).notices
        self.save()

    def write(self) -> None:
        """Write some lines, of which the last may be unfinished."""
        path = self.random.choice(LOGS)
        for _ in range(self.random.randint(1, 5)):
            self.lines += 1
            line = b"%s line %d " % (path.encode(), self.lines) + b"." * self.random.choice([0, 3, 60])
            if path not in self.begun and self.random.random() < 0.2:
                self.begun[path] = line
                self.disk.append(path, line)
            else:
                self.finish(path)
                self.disk.append(path, line + b"\n")
                self.remember(path, line)

    def finish(self, path: str) -> None:
        """Complete a line that was begun."""
        line = self.begun.pop(path, None)
        if line is not None:
            self.disk.append(path, b"!\n")
            self.remember(path, line + b"!")

    def remember(self, path: str, line: bytes) -> None:
        """Note that a line is there to be collected."""
        lines = self.written.setdefault(self.epochs.setdefault(path, len(self.epochs) + len(self.written) * 1000), [])
        lines.extend(self.pieces(line))

    def pieces(self, line: bytes) -> list[bytes]:
        """Return the pieces into which a line is split, if it is too long."""
        limit = self.settings.rules.limit
        return [line[at : at + limit] for at in range(0, len(line), limit)]

    def work(self) -> None:
        """Let the collector do one step."""
        harvest = self.follower.step(read=self.random.random() < 0.9 and len(self.flying) < 5)
        self.notices += harvest.notices
        for piece in harvest.pieces:
            self.ledger.sent(piece)
            self.flying.append(piece)
        if self.disk.open_now > self.settings.open_files:
            raise Broken(f"{self.disk.open_now} files are open")

    def wait(self) -> None:
        """Let time pass."""
        self.now += self.random.choice([0.3, 1.0, 10.0])

    def hush(self) -> None:
        """Silence the broker, or let it answer again."""
        self.silent = not self.silent

    def deliver(self) -> None:
        """Let the broker store a piece."""
        if self.flying and not self.silent:
            piece = self.flying.popleft()
            self.delivered += piece.lines
            self.unanswered.append(piece)

    def answer(self) -> None:
        """Let the collector hear of a stored piece."""
        if self.unanswered:
            self.ledger.acknowledged(self.unanswered.popleft())

    def save(self) -> None:
        """Let the collector write its state file."""
        self.state = encode_state("t", self.follower.tracker.state)

    def kill(self) -> None:
        """Kill the collector and start it again."""
        self.killed += 1
        if self.random.random() < 0.5:
            self.deliver()  # it had left
        self.flying.clear()
        self.unanswered.clear()
        self.disk.crash()
        if self.random.random() < 0.3:
            self.wait()
        self.start()

    def settle(self) -> None:
        """Read, acknowledge and save everything that can be read."""
        self.silent = False
        for _ in range(3):
            self.now += self.settings.poll
            for _ in range(1000):
                harvest = self.follower.step()
                self.notices += harvest.notices
                for piece in harvest.pieces:
                    self.ledger.sent(piece)
                    self.flying.append(piece)
                while self.flying:
                    self.deliver()
                while self.unanswered:
                    self.answer()
                if harvest.idle and not harvest.pieces:
                    break
            else:
                raise Broken("it does not come to rest")
        self.save()

    def shift(self, path: str) -> str:
        """Rename a.log.1 to a.log.2, with the last one removed; return the name that is free then."""
        if f"{path}.{KEPT}" in self.disk.names:
            self.settle()
            self.disk.remove(f"{path}.{KEPT}")
        for number in range(KEPT - 1, 0, -1):
            if f"{path}.{number}" in self.disk.names:
                self.disk.rename(f"{path}.{number}", f"{path}.{number + 1}")
        if self.random.random() < 0.3:
            self.work()
        return f"{path}.1"

    def rotate(self) -> None:
        """Rotate by renaming; the writer may go on in the old file to the end of its line."""
        path = self.random.choice(LOGS)
        if path in self.disk.names:
            if (DEVICE, self.disk.names[path].inode) not in self.follower.tracker.sources:
                self.settle()  # a file that comes and goes between two looks is not seen
            target = self.shift(path)
            self.finish(path)
            self.disk.rename(path, target)
            self.epochs.pop(path, None)
            if self.random.random() < 0.5:
                self.work()
            if self.random.random() < 0.7:
                self.disk.create(path)

    def copy_and_empty(self) -> None:
        """Rotate as logrotate's copytruncate does, with looks in between."""
        path = self.random.choice(LOGS)
        node = self.disk.names.get(path)
        if node is None:
            return
        target = self.shift(path)
        self.finish(path)
        here = self.follower.tracker.sources.get((DEVICE, node.inode))
        if here is None or here.mark.position < 64:
            self.may_repeat = True
        if self.random.random() < 0.5:
            self.disk.copy(path, target, self.random.randint(0, len(node.data)))
            self.may_repeat |= 0 < len(self.disk.names[target].data) < 64
            self.work()
        self.disk.copy(path, target, len(node.data))
        if len(node.data) < 64:
            self.may_repeat = True
        if self.random.random() < 0.5:
            self.work()
        self.disk.truncate(path)
        self.epochs.pop(path, None)

    def replace(self) -> None:
        """Remove a file and make it anew, perhaps with the same inode, once all is read."""
        path = self.random.choice(LOGS)
        if path in self.disk.names:
            self.finish(path)
            self.settle()
            self.disk.remove(path)
            self.epochs.pop(path, None)
            if self.random.random() < 0.5:
                self.work()
            self.disk.create(path)

    def compress(self) -> None:
        """Replace a rotated file by one whose bytes are no lines."""
        path = f"{self.random.choice(LOGS)}.{self.random.randint(1, KEPT)}"
        if path in self.disk.names:
            self.settle()
            self.disk.append(f"{path}.gz", b"\x1f\x8b garbage\n")
            if self.random.random() < 0.5:
                self.work()
            self.disk.remove(path)
            self.disk.remove(f"{path}.gz")

    def check(self) -> None:
        """Assert that every line is there, in order by file, and twice only where that is allowed."""
        places: dict[bytes, int] = {}
        for place, line in enumerate(self.delivered):
            places.setdefault(line, place)
        for lines in self.written.values():
            missing = [line for line in lines if line not in places and line not in self.gone]
            if missing:
                raise Broken(f"{len(missing)} lines are missing, first {missing[0]!r}")
            # Pieces of split lines may be equal to one another.
            order = [places[line] for line in lines if line.startswith(b"/") and line in places]
            if order != sorted(order):
                raise Broken("lines of a file are not in order")
        known = {line for lines in self.written.values() for line in lines}
        known.update(piece for line in self.begun.values() for piece in self.pieces(line))
        foreign = [line for line in self.delivered if line not in known]
        if foreign:
            raise Broken(f"{foreign[0]!r} was never written")
        repeated = len([line for line in self.delivered if line.startswith(b"/")]) - len(
            {line for line in self.delivered if line.startswith(b"/")}
        )
        if repeated and not self.killed and not self.may_repeat:
            raise Broken(f"{repeated} lines are repeated")
        self.check_notices()

    def check_notices(self) -> None:
        """Assert that a loss is reported only where there may be one."""
        losses = [each for each in self.notices if "lost" in each and not (self.killed and "any later lines" in each)]
        if losses and not self.may_repeat:
            raise Broken(f"it says that something was lost: {losses}")
