"""A cluster inside the test's own process on real loopback ports: real sockets, files, threads and the real reactor."""

from __future__ import annotations

import shutil
import tempfile
from types import TracebackType
from typing import Any, Self

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.threads import deferToThreadPool

from logd.broker.service import BrokerService
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.config import BrokerSettings
from logd.testing.processes.broker import free_port


class LoopbackCluster:
    """A broker and clients on the reactor that runs the test; its files are in a temporary directory.

    ::

        async with LoopbackCluster() as cluster:
            producer = cluster.producer()
            await producer.send("events", b"hello")

    ``settings`` are those of BrokerSettings, such as ``topics_partitions=4``.
    """

    def __init__(self, *, reactor: Any = None, **settings: Any) -> None:
        """``reactor``: by default the running one. Raises ConfigurationError for a setting that is not allowed."""
        if reactor is None:
            from twisted.internet import reactor  # installed by the import, so not before it is needed
        self.reactor = reactor
        self._tree_port = free_port()
        self._settings = {
            "listen": "tcp:0:interface=127.0.0.1",
            "zookeeper_listen": f"tcp:{self._tree_port}:interface=127.0.0.1",
            **settings,
        }
        BrokerSettings(data="checked", **self._settings)
        self._directory = ""
        self._services: list[BrokerService] = []
        self._clients: list[Producer | Consumer | Admin] = []

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The brokers' addresses: the first argument of every client. Empty before ``start``."""
        return [service.broker.advertised for service in self._services if service.broker is not None]

    @property
    def zookeeper(self) -> str:
        """The address of the coordination tree, for consumers of groups that are not made here."""
        return f"127.0.0.1:{self._tree_port}"

    def start(self) -> Deferred[None]:
        """Start; fires when requests are served. Fails with the error of a broker that cannot start."""
        return maybeDeferred(self._start)

    def stop(self) -> Deferred[None]:
        """Close the clients made here, stop the brokers, remove their files; fires when all of that is done."""
        return Deferred.fromCoroutine(self._stop())

    def producer(self, **settings: Any) -> Producer:
        """Return a Producer of this cluster, with its own settings; closed by ``stop``."""
        client: Producer = self._client(Producer, settings)
        return client

    def consumer(self, **settings: Any) -> Consumer:
        """Return a Consumer of this cluster, with its own settings, such as ``group="readers"``; closed by ``stop``."""
        if "group" in settings:
            settings = {"zookeeper": self.zookeeper, **settings}
        client: Consumer = self._client(Consumer, settings)
        return client

    def admin(self, **settings: Any) -> Admin:
        """Return an Admin of this cluster; closed by ``stop``."""
        client: Admin = self._client(Admin, settings)
        return client

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _start(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="logd-")
        try:
            settings = BrokerSettings(data=f"{self._directory}/broker-0", **self._settings)
            service = BrokerService(self.reactor, settings, signals=False)
            service.startService()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        self._services.append(service)

    def _client(self, kind: type[Any], settings: dict[str, Any]) -> Any:
        client = kind(self.addresses, **{"reactor": self.reactor, **settings})
        self._clients.append(client)
        return client

    async def _stop(self) -> None:
        clients, self._clients = self._clients, []
        await gatherResults([client.close() for client in clients])
        services, self._services = self._services, []
        await gatherResults([service.stopService() for service in services])
        await deferToThreadPool(self.reactor, self.reactor.getThreadPool(), shutil.rmtree, self._directory, True)
