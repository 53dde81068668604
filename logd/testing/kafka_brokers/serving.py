"""One run of a broker with a listener for Kafka's clients, on a reactor: what a thread or a process runs."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import field, frozen
from twisted.internet.defer import Deferred

from logd.broker.service import BrokerService
from logd.config import BrokerSettings
from logd.config.kafka import KafkaSettings
from logd.config.security import SecuritySettings
from logd.log.disk.local_files import LocalFiles
from logd.testing.kafka_brokers.connection_faults import ConnectionFaults, FaultyPorts
from logd.testing.kafka_brokers.data_folder import UnflushedFiles

#: A port of loopback, as Twisted's endpoints are described.
_LOOPBACK = "tcp:{}:interface=127.0.0.1"
#: The groups of settings in BrokerSettings, whose settings may be given by their names alone.
_GROUPS: dict[str, type[Any]] = {"kafka": KafkaSettings, "security": SecuritySettings}


@frozen(kw_only=True)
class ServingSettings:
    """Settings of a broker for tests."""

    data: str
    #: The port for clients of Kafka.
    kafka_port: int
    #: The port for clients of logd; 0: any.
    native_port: int = 0
    #: Flush messages before they are acknowledged.
    durable: bool = False
    #: Further settings of BrokerSettings, KafkaSettings and SecuritySettings, by their names there.
    more: dict[str, Any] = field(factory=dict)

    def broker_settings(self) -> BrokerSettings:
        """Return the settings of the broker. Raises ConfigurationError for one that is not allowed."""
        more = {"kafka_listen": _LOOPBACK.format(self.kafka_port), **self.more}
        groups: dict[str, Any] = {}
        for name, group in _GROUPS.items():
            names = {each.name for each in attrs.fields(group)}
            groups[name] = group(**{each: more.pop(each) for each in names & more.keys()})
        return BrokerSettings(
            data=self.data,
            **{
                "listen": _LOOPBACK.format(self.native_port),
                "zookeeper_listen": _LOOPBACK.format(0),
                "flush_threads": 1,
                "io_threads": 1,
                **groups,
                **more,
            },
        )

    def encoded(self) -> dict[str, Any]:
        """Return the settings as an object of JSON."""
        return attrs.asdict(self)


class ServedBroker:
    """A broker that serves from ``start`` to ``stop``, on the thread of its reactor."""

    def __init__(self, reactor: Any, settings: ServingSettings) -> None:
        broker = settings.broker_settings()
        self.faults = ConnectionFaults(reactor)
        files = LocalFiles() if settings.durable else UnflushedFiles()
        ports = FaultyPorts(reactor, broker, self.faults)
        self._service = BrokerService(reactor, broker, files=files, signals=False, ports=ports)

    def start(self) -> tuple[str, int]:
        """Serve, and return the address for clients of logd. Raises what BrokerService raises."""
        self._service.startService()
        assert self._service.broker is not None
        return self._service.broker.advertised

    def stop(self) -> Deferred[None]:
        """Cut the connections of Kafka's clients off and stop."""
        stopping = self._service.stopService()
        # Those are accepted no more, and a client that takes no answer, as it waits for this stop, is not waited for.
        self.faults.drop()
        return stopping
