"""The disk of a simulated broker: it can fail at any change, be slow or full, be replaced, and lose or flip bytes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import define, field

from logd.log.disk.names import EPOCHS, INDEX_SUFFIX
from logd.testing.memory.broker import DATA, MemoryBroker
from logd.testing.memory.disk import Directory, Inode, PowerLoss
from logd.testing.memory.files import MemoryFiles

#: Files of a partition that a broker can make again from its log, or from what others have.
MADE_AGAIN = (EPOCHS, INDEX_SUFFIX)


@define(eq=False)
class SimulatedDisk(MemoryFiles):
    """A disk whose broker dies in the middle of the change at which ``power`` runs out."""

    #: Called at that moment: kills the broker.
    died: Callable[[], None] = lambda: None

    def step(self) -> None:
        """Count a change; see MemoryFiles."""
        try:
            MemoryFiles.step(self)
        except PowerLoss:
            self.power = None
            self.died()
            raise


@define(eq=False)
class Disks:
    """The disks of a cluster. Faults last until ``mend``, and a broker's first disk may come back."""

    random: Random
    now: Callable[[], float]
    disks: dict[str, SimulatedDisk] = field(factory=dict, init=False)
    #: Former disks, by host.
    _former: dict[str, SimulatedDisk] = field(factory=dict, init=False)
    #: Until when each wait for a disk takes long, by host.
    _slow: dict[str, float] = field(factory=dict, init=False)

    def make(self, host: str) -> SimulatedDisk:
        """Return a new empty disk for a host."""
        disk = self.disks[host] = SimulatedDisk(Random(self.random.random()), self.now)
        return disk

    def delay(self, host: str, usual: float) -> float:
        """Return the seconds of a wait for a disk."""
        return max(usual, 0.3) if self._slow.get(host, 0.0) > self.now() else usual

    def slow_down(self, host: str, seconds: float) -> None:
        """Let each wait for a disk take long for some time."""
        self._slow[host] = self.now() + seconds

    def die_at_change(self, broker: MemoryBroker, number: int, power_lost: bool) -> None:
        """Kill a broker in the middle of the change of this number from now on: a write, sync, rename, removal."""
        disk = self.disks[broker.host]
        disk.died = lambda: broker.kill(power_lost)
        disk.power = number

    def replace(self, broker: MemoryBroker) -> None:
        """Give a broker that does not run an empty disk."""
        self._former[broker.host] = self.disks[broker.host]
        broker.files = self.make(broker.host)

    def give_back(self, broker: MemoryBroker) -> bool:
        """Give a broker that does not run its former disk; return whether there is one."""
        former = self._former.pop(broker.host, None)
        if former is None:
            return False
        self._former[broker.host] = self.disks[broker.host]
        broker.files = self.disks[broker.host] = former
        return True

    def spoil(self, broker: MemoryBroker) -> str:
        """Flip a bit of a file that can be made again, or cut the file; return its name, "" if there is none."""
        found: list[tuple[str, Inode]] = []
        data = broker.files.root.names.get(DATA.strip("/"))
        folders = data.names.items() if isinstance(data, Directory) else ()
        for folder, node in sorted(folders, key=lambda each: each[0]):
            if isinstance(node, Directory):
                files = sorted(node.names.items(), key=lambda each: each[0])
                found += [
                    (f"{folder}/{name}", file)
                    for name, file in files
                    if isinstance(file, Inode) and name.endswith(MADE_AGAIN) and file.data
                ]
        if not found:
            return ""
        name, inode = self.random.choice(found)
        if self.random.random() < 0.5:
            inode.data[self.random.randrange(len(inode.data))] ^= 1 << self.random.randrange(8)
        else:
            del inode.data[self.random.randrange(len(inode.data)) :]
        inode.sync()
        return name

    def mend(self) -> None:
        """End all faults that go on."""
        self._slow.clear()
        for disk in self.disks.values():
            disk.power = disk.room = None
            disk.fail_syncs = 0
