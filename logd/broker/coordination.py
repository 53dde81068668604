"""The coordination tree as a broker has it: kept by itself in its data directory, or served elsewhere."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.config import BrokerSettings
from logd.coord.interfaces import ICoordination
from logd.errors import ConfigurationError
from logd.log.names import COORDINATION, join

#: Seconds for which a client goes on looking for its first session: as long as the broker lives, or nearly.
FOR_EVER = 24 * 60 * 60.0


class BrokerCoordination:
    """Opens the tree that is embedded, if it is, and the client to it; closes the client first and then the tree."""

    _log = Logger()

    def __init__(self, reactor: Any, settings: BrokerSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._server: Any = None
        self._port: IListeningPort | None = None
        self._connecting: Deferred[Any] | None = None
        self.client: ICoordination | None = None

    def listen(self, data: str) -> None:
        """Serve the tree in the data directory ``data``, unless another one is told of. It is locked already.

        Raises ConfigurationError when the endpoint cannot be listened on, DataDirectoryError when the tree's files
        cannot be used.
        """
        settings = self._settings
        if settings.zookeeper_hosts is not None:
            return
        from logd.coord.server.service import CoordinationServer  # nothing of it is needed with a tree elsewhere

        self._server = CoordinationServer(self._reactor, join(data, COORDINATION))
        self._server.start()
        outcome: list[Any] = []
        serverFromString(self._reactor, settings.zookeeper_listen).listen(self._server.factory).addBoth(outcome.append)
        if outcome and isinstance(outcome[0], Failure):
            raise ConfigurationError(
                f"cannot serve the coordination tree at {settings.zookeeper_listen!r}: "
                f"{outcome[0].getErrorMessage()}; if another broker runs here, give both the same tree: "
                "'logd zookeeper --data DIR' and --zookeeper 127.0.0.1:2181 for each broker; "
                "for a second one on its own, give another --zookeeper-listen"
            )
        self._port = outcome[0]

    def connect(self) -> ICoordination:
        """Make the client, and let it connect, and go on trying. Starts threads: call it after twistd's fork."""
        raise NotImplementedError

    async def close(self) -> None:
        """End our session, then the tree."""
        if self.client is not None:
            await self.client.close()
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        if self._server is not None:
            await self._server.stop()
