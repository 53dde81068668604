"""The resources of a broker in a test: a clock, a disk in memory, threads that the test runs, and a tree in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logd.broker.resources import BrokerResources, Listener
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.interfaces import IThreads
from logd.net.server import ConnectionFactory
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles

#: Seconds for which a broker goes on looking for its first session.
FOR_EVER = 1e6


@define(eq=False)
class TestedTree:
    """A broker's way to a tree in memory; see TreeAccess."""

    __test__ = False

    make_client: Callable[[], InProcessCoordination]
    problem: str | None = None
    #: Fires when the tree is closed.
    closing: Deferred[None] = field(factory=lambda: succeed(None))
    _client: InProcessCoordination | None = field(default=None, init=False)

    @property
    def client(self) -> InProcessCoordination:
        """The client that the broker has opened."""
        assert self._client is not None
        return self._client

    def open(self, data: str) -> InProcessCoordination:
        """See TreeAccess."""
        self._client = self.make_client()
        return self._client

    def connect(self) -> None:
        """See TreeAccess."""
        connecting = self.client.connect(FOR_EVER)
        connecting.addErrback(lambda failure: failure.trap(ClientClosing, OperationTimeout))

    async def leave(self) -> None:
        """See TreeAccess."""
        if self._client is not None:
            await self._client.close()

    async def close(self) -> None:
        """See TreeAccess."""
        await self.closing

    def cut(self) -> None:
        """Cut the broker off from the tree for good, as when it is dead."""
        self.client.link.reachable = False
        self.client.link.cut()


def tested_resources(
    clock: ProcessClock,
    files: MemoryFiles,
    flush_threads: IThreads,
    read_threads: IThreads,
    tree: TestedTree,
    address: tuple[str, int],
    ports: dict[tuple[str, int], ConnectionFactory] | None = None,
    **more: Any,
) -> BrokerResources:
    """Return the resources of a broker that is reached by its factories alone and stopped by its assembly.

    ``ports`` takes the factories, by setting and place. The n-th listener of a setting is at the n-th port from
    ``address`` on.
    """

    def listen(factory: ConnectionFactory, setting: str, place: int) -> Listener:
        factory.doStart()
        if ports is not None:
            ports[setting, place] = factory
        return Listener((address[0], address[1] + place), factory.doStop)

    return BrokerResources(
        clock,
        clock.seconds,
        files,
        "/data",
        flush_threads,
        read_threads,
        tree,
        listen,
        lambda: succeed(None),
        pick=lambda n: 0,
        **more,
    )
