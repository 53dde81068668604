"""Bytes that change on a disk: of topics.json, of the tree's snapshots and changes, and of stored messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from attrs import define, field

from logd.coord.server.storage.change_file import decode_head, find_records
from logd.coord.server.storage.folder import changes_name, numbers_of, snapshot_name
from logd.errors import LogdError
from logd.log.disk.names import TOPICS
from logd.log.partition import PartitionLog
from logd.testing.memory.broker import DATA
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.tree import FOLDER
from tests.simulation.actors.accepting import seal_entry
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.machines import MachineFaults
from tests.simulation.violation import Violation
from tests.simulation.world import World

#: The share of seeds in which bytes change.
LIKELY = 0.4
#: The bytes for a fault of the tree are there for a moment only: it is waited for so long, looking this often.
CHANCE_SECONDS = 10.0
LOOK_SECONDS = 0.1
_UUID = re.compile(rb'"uuid": "([-0-9a-f]{36})"')


@define(eq=False)
class RotFaults:
    """Changes bytes until ``end``, in some seeds. A broker or a tree that is changed is killed first and started again.

    Only bytes of which there is a second copy are changed, and those of messages that a repair gives up: everything
    else that was acknowledged has to be there in the end.
    """

    world: World
    cluster: SimulatedCluster
    machines: MachineFaults
    note: Callable[[str, str], None]
    random: Random = field(init=False)
    _over: bool = field(default=False, init=False)
    _kinds: list[Callable[[], None]] = field(factory=list, init=False)
    #: Files of the tree with a flipped bit: while one is there, another flip could take the second copy.
    _flipped: set[str] = field(factory=set, init=False)
    #: The snapshot right behind which the tree was last made to end.
    _ended_at: int = field(default=-1, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random("rot")
        self._kinds = [self._flip_record, self._flip_tree, self._flip_tree, self._seal_entry]

    def begin(self) -> None:
        """From now on bytes change, if this seed is one of those."""
        self._over = self.random.random() >= LIKELY
        self._later(5.0, self._next)

    def end(self) -> None:
        """Change no byte any more."""
        self._over = True

    def _next(self) -> None:
        if not self._over:
            self.random.choice(self._kinds)()
            self._later(5.0, self._next)

    def _later(self, longest: float, call: Callable[[], None]) -> None:
        self.world.clock.callLater(longest * self.random.random(), call)

    def _flip(self, files: MemoryFiles, path: str, at: int) -> None:
        inode = files._inode(path)
        inode.data[at] ^= 1 << self.random.randrange(8)
        inode.sync()

    def _flip_record(self) -> None:
        """Flip a bit of a record in topics.json, every second time of a topic's uuid."""
        broker = self.random.choice(self.cluster.brokers)
        path = f"{DATA}/{TOPICS}"
        if self.machines.may_lose(broker) and broker.files.room is None and broker.files.exists(path):
            self.note("record flipped", broker.host)

            def flip() -> None:
                data = bytes(broker.files._inode(path).data)
                uuids = [at for found in _UUID.finditer(data) for at in range(*found.span(1))]
                places = uuids if uuids and self.random.random() < 0.5 else range(len(data))
                self._flip(broker.files, path, self.random.choice(places))

            self.machines.restart(broker, flip)

    def _seal_entry(self) -> None:
        """Make a stored entry unreadable to every codec, with a checksum that matches, and have it repaired."""
        broker = self.random.choice(self.cluster.brokers)
        if not self.machines.may_lose(broker):
            return
        assert broker.store is not None
        logs: list[PartitionLog] = [log for log in broker.store.logs() if log.offline is None and log.end > log.start]
        if logs and broker.files.room is None:
            log = self.random.choice(logs)
            self.note("entry sealed", broker.host)
            self.machines.restart(broker, lambda: seal_entry(broker, log, self.random, self.cluster.ledger))

    def _flip_tree(self) -> None:
        """Flip a bit of the tree's newest snapshot, or of a change that a snapshot has, too, and start the tree."""
        if self.random.random() < 0.5:
            self._try_tree(self._flip_snapshot, 0.0)
        else:
            self._try_tree(self._flip_change, CHANCE_SECONDS)

    def _try_tree(self, kind: Callable[[MemoryFiles], Callable[[], None] | None], wait: float) -> None:
        """Do this with the tree's files as soon as they have the bytes for it, within ``wait`` seconds."""
        tree = self.cluster.tree
        if self._over:
            return
        if tree.clock is not None and tree.files.room is None:
            sound = not any(tree.files.exists(path) for path in self._flipped)
            change = kind(tree.files) if sound else None
            if change is not None:
                tree.kill()
                change()
                self.world.clock.callLater(0.5, self._start_tree)
        if wait > 0:
            self.world.clock.callLater(LOOK_SECONDS, lambda: self._try_tree(kind, wait - LOOK_SECONDS))

    def _flip_snapshot(self, files: MemoryFiles) -> Callable[[], None] | None:
        zxids = numbers_of("snapshot", files.list(FOLDER))
        path = f"{FOLDER}/{snapshot_name(zxids[-1])}" if len(zxids) > 1 else ""
        if not path:
            return None
        self.note("snapshot flipped", "tree")
        self._flipped.add(path)
        return lambda: self._flip(files, path, self.random.randrange(files.size(path)))

    def _flip_change(self, files: MemoryFiles) -> Callable[[], None] | None:
        """Flip a bit of a change that the newest snapshot has, and that changes follow which it does not have.

        A tree goes on in a file whose changes a snapshot has if it ended right after that snapshot: so it ends then.
        """
        names = files.list(FOLDER)
        zxids = numbers_of("snapshot", names)
        bases = [base for base in numbers_of("changes", names) if zxids and base <= zxids[-1]]
        if not bases:
            return None
        path = f"{FOLDER}/{changes_name(bases[-1])}"
        data = bytes(files._inode(path).data)
        head = decode_head(data)
        records = [] if head is None else list(find_records(data, head))
        covered = [each for each in records if each.zxid <= zxids[-1]]
        if not covered:
            return None
        if len(covered) == len(records):
            if zxids[-1] == self._ended_at:
                return None
            self._ended_at = zxids[-1]
            self.note("killed behind a snapshot", "tree")
            return lambda: None
        self.note("change flipped", "tree")
        self._flipped.add(path)
        record = self.random.choice(covered)
        return lambda: self._flip(files, path, self.random.randrange(record.at, record.end))

    def _start_tree(self) -> None:
        if self.cluster.tree.clock is None:
            try:
                self.cluster.start_tree()
            except LogdError as error:
                raise Violation("the tree does not start", error) from error
