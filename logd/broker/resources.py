"""The resources that a broker is assembled from: clocks, disk, threads, the coordination tree and the network."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen
from twisted.internet.defer import Deferred, fail

from logd.coord.interfaces import ICoordination
from logd.errors import BrokerUnavailable
from logd.interfaces import IFileOperations, IThreads
from logd.net.server import ConnectionFactory

if TYPE_CHECKING:
    from logd.net.connection import BrokerConnection


def _no_network(address: tuple[str, int], tls: bool) -> Deferred[BrokerConnection]:
    """Fail: the default, for brokers without others."""
    return fail(BrokerUnavailable(f"there is no network by which {address} could be reached"))


class TreeAccess(Protocol):
    """One broker's access to the coordination tree, which is embedded or served elsewhere."""

    @property
    def problem(self) -> str | None:
        """The reason why the tree cannot be used before a restart; None while it may become available."""
        ...

    def open(self, data: str) -> ICoordination:
        """Serve an embedded tree from the locked data directory. Return a client that is not connected yet."""
        ...

    def connect(self) -> None:
        """Let the client connect; it retries until it succeeds."""
        ...

    async def leave(self) -> None:
        """End the client's session. If no server answers, the tree expires the session later."""
        ...

    async def close(self) -> None:
        """Close the embedded tree, if any. Call ``leave`` first."""
        ...


@frozen
class Listener:
    """A listening port: the address that clients are told, and ``stop``, which ends accepting connections."""

    advertised: tuple[str, int]
    stop: Callable[[], object]


@frozen
class BrokerResources:
    """The clocks, disk, threads, tree and network that a broker uses. The assembly opens and closes nothing else."""

    #: The reactor, or a clock in a test; measures durations.
    clock: Any
    #: The time of day, in seconds since the epoch.
    wall: Callable[[], float]
    files: IFileOperations
    #: The data directory, absolute.
    data: str
    flush_threads: IThreads
    read_threads: IThreads
    tree: TreeAccess
    #: ``listen(factory, setting, place)`` listens before it returns, at the endpoint of a setting (``listen``,
    #: ``kafka.listen``); ``place``: which of several, from 0 on. Raises ConfigurationError if that is not possible.
    listen: Callable[[ConnectionFactory, str, int], Listener]
    #: Ends the threads once their work is done.
    end_threads: Callable[[], Deferred[None]]
    #: ``connect((host, port), tls)`` opens a connection to another broker; fails with BrokerUnavailable.
    connect: Callable[[tuple[str, int], bool], Deferred[BrokerConnection]] = _no_network
    #: The numbers of files that may be open for reading and for appending.
    open_readers: int = 512
    open_writers: int = 1024
    #: ``pick(n)`` is a random number below n.
    pick: Callable[[int], int] = random.randrange
