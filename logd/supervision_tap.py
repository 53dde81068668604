"""Reports of a broker under ``twistd logd`` to systemd, or to another supervisor that speaks its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.application.service import Service

from logd.broker.service import BrokerService
from logd.config import BrokerSettings
from logd.plurals import counted
from logd.supervision.notify_socket import NotifySocket, watchdog_seconds
from logd.supervision.supervised import Supervised


class BrokerSupervision(Service):
    """Starts before the broker's service, and reports until the broker is told to stop."""

    def __init__(
        self,
        reactor: Any,
        broker: BrokerService,
        settings: BrokerSettings,
        socket: NotifySocket,
        environ: Mapping[str, str],
    ) -> None:
        self._broker = broker
        self._data = settings.data
        self._socket = socket
        self._supervised = Supervised(
            reactor, socket, watchdog_seconds(environ), self._ready, self._status, broker.ailment
        )

    def startService(self) -> None:  # noqa: N802  # Twisted calls it
        """Report what is done now, which may take minutes after a crash, and follow the broker."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self._socket.tell(STATUS=f"opening the logs in {self._data}")
        self._supervised.start()

    def stopService(self) -> None:  # noqa: N802  # Twisted calls it
        """Report that the broker stops."""
        super().stopService()  # type: ignore[no-untyped-call]  # as above
        self._supervised.stop()

    def _ready(self) -> bool:
        broker = self._broker.broker
        return broker is not None and broker.ready

    def _status(self) -> str:
        broker = self._broker.broker
        if broker is None:
            return "starting"
        health = broker.health()
        served = f"{counted(health['partitions'], 'partition')}, {counted(health['connections'], 'connection')}"
        troubles = [
            f"{len(health[name])} {name}: {', '.join(sorted(health[name])[:3])}"
            for name in ("offline", "lost", "full", "conflicts")
            if health.get(name)
        ]
        if health.get("problem"):
            troubles.append(str(health["problem"]))
        return f"{health['status']}: {'; '.join([f'serves {served}', *troubles])}"
