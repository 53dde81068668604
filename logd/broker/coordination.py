"""A broker's access to the coordination tree, embedded in its data directory or served elsewhere."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.listening.ports import check_tree_open
from logd.config import BrokerSettings
from logd.config.zookeeper import HOSTS_VARIABLE
from logd.coord.errors import ClientClosing, CoordinationError, NoAuth
from logd.coord.interfaces import ICoordination
from logd.coord.protection import TreeProtection
from logd.coord.records import SessionState
from logd.coord.server.four_letter_words import metrics
from logd.coord.server.server import CoordinationServer
from logd.coord.server.settings import CoordinationServerSettings
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import FOR_EVER, CoordinationSettings
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import ConfigurationError
from logd.interfaces import IFileOperations
from logd.log.disk.names import COORDINATION, join
from logd.net.server_tls import reactor_for_listeners
from logd.net.threads import DiskThreads

#: Two threads, so that a snapshot does not hold up a sync.
TREE_THREADS = 2
#: Seconds before a tree is tried again.
_AGAIN_SECONDS = 1.0


class BrokerCoordination:
    """Opens the embedded tree, if any, and a client; closes the client, then the tree. See TreeAccess."""

    _log = Logger()

    def __init__(self, reactor: Any, settings: BrokerSettings, files: IFileOperations) -> None:
        self._reactor = reactor
        self._settings = settings
        self._files = files
        self._threads: DiskThreads | None = None
        self._server: CoordinationServer | None = None
        self._port: IListeningPort | None = None
        self._client: ICoordination | None = None
        self._given_up: str | None = None
        self._background = Background("the protection of the coordination tree")

    @property
    def client(self) -> ICoordination | None:
        """The client of the tree, None before ``open``; for services beside the broker, which do not close it."""
        return self._client

    @property
    def problem(self) -> str | None:
        """The reason why the tree cannot be changed, for /health; None if no reason is known."""
        problem = self._server.problem if self._server is not None else None
        return problem or self._given_up

    def figures(self) -> dict[str, str | int | float] | None:
        """Return the figures of the embedded tree by ZooKeeper's names; None without an embedded tree."""
        return metrics(self._server) if self._server is not None and self._server.serving else None

    def open(self, data: str) -> ICoordination:
        """Serve the tree in the locked data directory ``data``, unless the settings name another; return a client.

        The client is not connected yet. The logs are served even if the tree is damaged: opening it is retried until it
        succeeds. Raises ConfigurationError if the endpoint cannot be listened on or a setting is not allowed.
        """
        self._serve(data)
        self._client = self._make_client()
        return self._client

    def _serve(self, data: str) -> None:
        settings = self._settings
        if settings.zookeeper_hosts is not None:
            return
        self._threads = DiskThreads(self._reactor, TREE_THREADS, "logd-coordination")
        self._threads.start()
        bounds = CoordinationServerSettings(
            nodes=settings.zookeeper_nodes_max, nodes_bytes=settings.zookeeper_nodes_bytes
        )
        folder = join(data, COORDINATION)
        self._server = CoordinationServer(self._reactor, folder, self._files, self._threads, bounds, wall=time.time)
        self._server.start_when_sound()
        outcome: list[Any] = []
        endpoint = serverFromString(reactor_for_listeners(self._reactor), settings.zookeeper_listen)
        endpoint.listen(self._server.factory).addBoth(outcome.append)
        if outcome and isinstance(outcome[0], Failure):
            raise ConfigurationError(
                f"cannot serve the coordination tree at {settings.zookeeper_listen!r}: "
                f"{outcome[0].getErrorMessage().rstrip('.')}; if another broker runs on this machine, "
                "give both one tree: start 'logd zookeeper --data DIR' and each broker with --zookeeper HOST:PORT "
                "of it; for a second broker on its own, give another --zookeeper-listen" + _variable_hint(settings)
            )
        self._port = outcome[0] if outcome else None
        host = getattr(self._port.getHost(), "host", "127.0.0.1") if self._port is not None else "127.0.0.1"
        own = CoordinationSettings.secured("127.0.0.1", settings.zookeeper_security).access_lists().own
        what = f"zookeeper.listen = {settings.zookeeper_listen!r}"
        # No client was accepted yet: the reactor has not run since.
        if check_tree_open(settings.security.open_to_network, own, what, host):
            self._server.admission.demand(own)

    def _make_client(self) -> ICoordination:
        settings = self._settings
        hosts = settings.zookeeper_hosts
        if hosts is not None:
            origin = settings.origins.get("zookeeper.hosts") or "zookeeper.hosts"
            self._log.info("joins the coordination tree at {hosts}: {origin} names it", hosts=hosts, origin=origin)
        else:
            address: Any = self._port.getHost() if self._port is not None else None
            host = address.host if address.host not in ("0.0.0.0", "::", "") else "127.0.0.1"
            hosts = f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"
            self._log.info(
                "serves the coordination tree at {hosts}, which is kept in the data directory: no other tree is named "
                "(zookeeper.hosts)",
                hosts=hosts,
            )
        return ZooKeeperCoordination(
            self._reactor,
            CoordinationSettings.secured(
                hosts,
                settings.zookeeper_security,
                session_timeout=settings.zookeeper_session_ms / 1000,
                connect_timeout=FOR_EVER,
                operation_timeout=settings.zookeeper_timeout_ms / 1000,
            ),
        )

    def connect(self) -> None:
        """See TreeAccess. Starts threads: only after twistd's fork."""
        if self._client is not None:
            connected = self._client.connect().addErrback(self._not_connected)
            if self._client.access_lists.own:
                self._background.start(self._found_tree(connected))

    async def _found_tree(self, connected: Deferred[ICoordination | None]) -> None:
        """Make the places of a new tree before strangers can, and say when an existing tree is open to them."""
        await connected
        if self._client is None or self._client.state is SessionState.CLOSED:
            return
        hosts = self._settings.zookeeper_hosts
        while True:
            try:
                # The root of a tree that is shared without a chroot is left to its operator.
                open_places = await TreeProtection(self._client, False).found(hosts is None or "/" in hosts)
            except NoAuth as error:
                self._log.error(
                    "the coordination tree belongs to clients with other credentials than zookeeper.digest.*: {error} "
                    "Give the broker those, or open the tree with them: `logd tree unprotect`",
                    error=str(error),
                )
                return
            except CoordinationError as error:
                self._log.warn("the coordination tree cannot be protected yet: {error}", error=str(error))
                await sleep(self._reactor, _AGAIN_SECONDS)
                continue
            break
        if open_places:
            self._log.warn(
                "nodes of the coordination tree can be changed or read by clients that should not: {paths}; "
                "`logd tree status` shows them, `logd tree protect` protects them",
                paths=", ".join(open_places),
            )

    async def leave(self) -> None:
        """See TreeAccess."""
        self._background.stop()
        if self._client is not None:
            await self._client.close()

    async def close(self) -> None:
        """See TreeAccess."""
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        if self._server is not None:
            await self._server.stop()
        if self._threads is not None:
            await self._threads.end()

    def _not_connected(self, failure: Failure) -> None:
        if not failure.check(ClientClosing):
            self._given_up = f"the coordination tree cannot be reached: {failure.getErrorMessage()}"
            self._log.critical("{problem}", problem=self._given_up)


def _variable_hint(settings: BrokerSettings) -> str:
    """Return the end of the error for who meant the broker to join the tree that the environment names."""
    if settings.origins.get("zookeeper.listen") != HOSTS_VARIABLE:
        return ""
    return (
        f"; {HOSTS_VARIABLE} names this address, at which the broker serves its own tree by default: to join the tree "
        "that is there, give --zookeeper with the address"
    )
