"""RabbitMQ: durable queues, and its streams, of one node."""

from __future__ import annotations

import os
import subprocess
from typing import ClassVar

from attrs import define, field

from logd.bench.systems import process_group
from logd.bench.systems.peer import Peer, PeerClient, accepts
from logd.bench.systems.places import SystemPlaces
from logd.testing.processes.broker import free_port

#: The folders of the scripts in Debian's package and in RabbitMQ's own archive. Those on the PATH change the user.
_SCRIPTS = ("debian/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin", "rabbitmq*/sbin")
_CLIENTS = "logd.bench.systems.clients"


@define(eq=False)
class RabbitPeer(Peer):
    """A node with the stream plugin; its clients use queues by AMQP, and streams by their own protocol."""

    name: ClassVar[str] = "RabbitMQ"
    fetched: ClassVar[str] = "debian"
    durability: ClassVar[str] = (
        "queues: persistent messages in a durable queue, written by the node and flushed at times of its choice; with "
        "batch 1 each is confirmed, with 50 a later call on the same channel is answered; streams: confirmed in the "
        "page cache"
    )
    clients: ClassVar[tuple[PeerClient, ...]] = (
        PeerClient("pika (queue)", f"{_CLIENTS}.pika_client", "pika", "pika", (1, 50), paced=True),
        PeerClient("rstream (stream)", f"{_CLIENTS}.rstream_client", "rstream", "rstream", (50, 0), paced=True),
    )
    stream_port: int = field(factory=free_port)
    distribution_port: int = field(factory=free_port)
    epmd_port: int = field(factory=free_port)
    _mapper: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        if _scripts(places) is None:
            return "there is no RabbitMQ in the folder of systems (--fetch brings it)"
        return "" if places.program("erl") else "there is no Erlang (erl) on the PATH or in the folder of systems"

    @property
    def version(self) -> str:
        """See Peer: from the name of its folder."""
        folder = os.path.basename(os.path.dirname(_scripts(self.places) or ""))
        return folder.rpartition("-")[2].rpartition("_")[2]

    def option(self, client: PeerClient) -> str:
        """See Peer: streams have a port of their own."""
        return str(self.stream_port)

    def launch(self) -> None:
        """See Peer."""
        files = {
            "rabbitmq.conf": f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            f"stream.listeners.tcp.1 = 127.0.0.1:{self.stream_port}\n"
            "stream.advertised_host = 127.0.0.1\n"
            f"stream.advertised_port = {self.stream_port}\n",
            "enabled_plugins": "[rabbitmq_stream].\n",
        }
        for name, text in files.items():
            with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
                file.write(text)
        # The node would start a port mapper that outlives it, and would find one only where Erlang is installed.
        mapper = [self.places.program("epmd") or "epmd", "-port", str(self.epmd_port), "-address", "127.0.0.1"]
        environment = {**os.environ, **self._environment()}
        self._mapper = process_group.start(mapper, env=environment, stdin=subprocess.DEVNULL)
        self.run([os.path.join(_scripts(self.places) or "", "rabbitmq-server")], self._environment())

    def serves(self) -> bool:
        """See Peer: both protocols."""
        return accepts(self.port) and accepts(self.stream_port)

    def stop(self) -> None:
        """See Peer; the port mapper is stopped too."""
        super().stop()
        if self._mapper is not None:
            process_group.kill(self._mapper)

    def _environment(self) -> dict[str, str]:
        erlang = os.path.dirname(self.places.program("erl") or "")
        root = self.places.find("debian/usr/lib/erlang")
        own = {
            "HOME": self.folder,
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": self.data,
            "RABBITMQ_LOG_BASE": f"{self.folder}/logs",
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONF_ENV_FILE": f"{self.folder}/none",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "PATH": f"{erlang}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        return {**self.places.environment(), **own, **({"ERL_ROOTDIR": root} if root else {})}


def _scripts(places: SystemPlaces) -> str | None:
    return next((found for pattern in _SCRIPTS if (found := places.find(pattern)) is not None), None)
