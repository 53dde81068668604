"""ActiveMQ Classic, one broker with KahaDB, from its jars."""

from __future__ import annotations

import os
import shutil
from typing import ClassVar

from attrs import define

from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces

_HEAP = "-Xmx1g"
#: The folder of the jars that ``fetch`` copies.
_JARS = "activemq*/libs"
_CORE = f"{_JARS}/activemq-broker-*.jar"
_SHELL = "org.apache.activemq.console.command.ShellCommand"
_SPRING = "http://www.springframework.org/schema/beans"
_ACTIVEMQ = "http://activemq.apache.org/schema/core"
_CONFIGURATION = f"""\
<beans xmlns="{_SPRING}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="{_SPRING} {_SPRING}/spring-beans.xsd {_ACTIVEMQ} {_ACTIVEMQ}/activemq-core.xsd">
<broker xmlns="{_ACTIVEMQ}" brokerName="bench" dataDirectory="{{data}}" useJmx="false">
<persistenceAdapter><kahaDB directory="{{data}}" journalDiskSyncStrategy="periodic"/></persistenceAdapter>
<transportConnectors><transportConnector uri="stomp+nio://127.0.0.1:{{port}}"/></transportConnectors>
</broker></beans>
"""


@define(eq=False)
class ActiveMQPeer(Peer):
    """One broker with its default store; STOMP is the protocol of its Python clients.

    Of two clients stomp.py is measured, since Qpid Proton (AMQP) sent a sixth and read half as many messages a second.
    """

    name: ClassVar[str] = "ActiveMQ"
    fetched: ClassVar[str] = "activemq"
    durability: ClassVar[str] = (
        "persistent messages in KahaDB's journal, flushed every second (journalDiskSyncStrategy periodic: flushed "
        "asynchronously, as in the paper); with batch 1 each receipt is awaited, 50 are a transaction"
    )
    clients: ClassVar[tuple[PeerClient, ...]] = (
        PeerClient("stomp.py", "logd.bench.systems.clients.stomp_client", "stomp", "stomp.py", paced=True),
    )

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        if shutil.which("java") is None:
            return "there is no Java on the PATH"
        if places.find(_CORE) is None:
            return "there are no jars of ActiveMQ in the folder of systems (activemq*/libs; --fetch brings them)"
        return ""

    @property
    def version(self) -> str:
        """See Peer: from the name of its jar."""
        return os.path.basename(self.places.find(_CORE) or "").removesuffix(".jar").rpartition("-")[2]

    def launch(self) -> None:
        """See Peer."""
        path = os.path.join(self.folder, "activemq.xml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_CONFIGURATION.format(data=self.data, port=self.port))
        jars = os.path.join(self.places.find(_JARS) or "", "*")
        self.run(["java", _HEAP, "-cp", jars, _SHELL, "start", f"xbean:file:{path}"])
