"""A coordination tree in memory: the embedded server's tree on a disk in memory, with clients in the same process."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.coord.server.server import CoordinationServer
from logd.coord.server.settings import CoordinationServerSettings
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clock_threads import ClockThreads
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles

#: The folder of the tree on its disk.
FOLDER = "/coordination"


@define(eq=False)
class MemoryTree:
    """One tree; it can be stopped, killed and started again, and recovers its sessions and nodes from ``files``.

    ``delay()`` returns the seconds that a message between a client and the tree takes, ``disk_delay()`` those of a wait
    for the disk.
    """

    world_clock: Any
    delay: Callable[[], float] = lambda: 0.0001
    disk_delay: Callable[[], float] = lambda: 0.001
    files: MemoryFiles = field(factory=MemoryFiles)
    random: Random = field(factory=lambda: Random(0))
    settings: CoordinationServerSettings = field(factory=CoordinationServerSettings)
    #: The process that it runs in; None while it does not run.
    clock: ProcessClock | None = field(default=None, init=False)
    server: CoordinationServer | None = field(default=None, init=False)
    #: Remains of killed processes; see MemoryNetwork.
    graveyard: list[object] = field(factory=list, init=False)
    clients: list[InProcessCoordination] = field(factory=list, init=False)
    host: str = "tree"

    def start(self) -> None:
        """Open the folder and serve. Raises DataDirectoryError."""
        self.clock = clock = ProcessClock(self.world_clock)
        threads = ClockThreads(clock, self.disk_delay)
        self.server = server = CoordinationServer(
            clock, FOLDER, self.files, threads, self.settings, random_bytes=self.random.randbytes
        )
        server.start()
        for client in self.clients:
            client.link.host, client.link.host_clock = server.host, clock

    def client(
        self, clock: ProcessClock, session_timeout: float = 10.0, timeout: float = 10.0
    ) -> InProcessCoordination:
        """Return a client for the process of that clock, not connected yet; it survives restarts of the tree."""
        host = None if self.server is None else self.server.host
        client = InProcessCoordination(host, clock, session_timeout, timeout, delay=self.delay)
        if self.clock is not None:
            client.link.host_clock = self.clock
        self.clients.append(client)
        return client

    def forget(self, client: InProcessCoordination) -> None:
        """End the connection of a client whose process is gone; its session expires."""
        client.link.vanish()
        if client in self.clients:
            self.clients.remove(client)

    def stop(self) -> Deferred[None]:
        """Stop serving; sessions live on. Fires when everything is on the disk."""
        server = self.server
        assert server is not None
        return server.stop().addCallback(lambda _: self._over())

    def kill(self, power_lost: bool = False) -> None:
        """End at once; with ``power_lost`` also lose unsynced data."""
        if self.clock is None:
            return
        self.clock.kill()
        self._over()
        self.files.restart(power_lost)
        for client in tuple(self.clients):
            # On the client's own clock: the client may stand still.
            client.link.clock.callLater(self.delay(), client.link.cut)

    def _over(self) -> None:
        self.graveyard.append((self.server, self.clock))
        if self.clock is not None:
            self.clock.kill()
        self.clock = self.server = None
        for client in self.clients:
            client.link.host = None
