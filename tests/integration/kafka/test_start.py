"""The modules that a real broker with a listener for clients of today's Kafka has imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kafka import KafkaAdminClient
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.peers import PATIENCE

#: Runs twistd, and writes the names of all modules to a file at the end.
_TWISTD = """\
import atexit, pathlib, sys
from twisted.scripts.twistd import run
atexit.register(lambda: pathlib.Path({path!r}).write_text(" ".join(sys.modules)))
run()
"""
#: They cost a start tens of milliseconds and the broker MBs, and serve what nobody has asked this broker for.
HEAVY = (
    *("OpenSSL", "cryptography", "twisted.internet.ssl", "twisted.web", "twisted.conch", "prometheus_client", "jinja2"),
    *("kafka.admin", "kafka.consumer", "kafka.producer", "kafka.net", "cramjam", "fastavro", "numpy", "opentelemetry"),
    *("logd.client", "logd.schema_registry", "logd.web", "logd.mirror", "logd.bench", "logd.cli", "click"),
)
#: The most modules of such a broker. It has 879, of which 431 are its own.
MOST = 880
#: The packages that serve clients of today's Kafka alone.
OF_THE_LISTENER = ("kafka", "logd.broker.kafka", "logd.protocol.kafka")
#: Calls ``leave_tls_out`` with an endpoint, and prints what came of it.
_REACTOR = """\
import sys
from logd.unused_tls import leave_tls_out
leave_tls_out(["tcp:0", sys.argv[1]])
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorSSL
print(IReactorSSL.providedBy(reactor), "OpenSSL" in sys.modules)
import OpenSSL
"""
#: Makes the service of a broker with the listener, and prints whether what the listener needs was imported by then.
_SERVICE = """\
import sys
from logd.tap import Options, makeService
options = Options()
options.parseOptions(["--data", sys.argv[1], "--kafka-listen", "tcp:0:interface=127.0.0.1"])
makeService(options)
print("logd.broker.kafka.session" in sys.modules, "logd.protocol.kafka.conversation" in sys.modules)
"""


class Broker(BrokerProcess):
    """A broker that tells its modules when it has stopped; executed, since a fork has those of its server too."""

    @property
    def command(self) -> list[str]:
        """See BrokerProcess."""
        command = super().command
        command[command.index("-c") + 1] = _TWISTD.format(path=f"{self.data}.modules")
        return ["env", *command]

    def modules(self) -> frozenset[str]:
        """Return the modules, once it has stopped."""
        return frozenset(Path(f"{self.data}.modules").read_text().split())


class StartTests(SynchronousTestCase):
    """Modules that are not needed are not imported."""

    def test_a_broker_imports_little(self) -> None:
        """None of the heavy ones, neither at the start nor for a client that asks for the cluster and its topics."""
        port = free_port()
        with Broker(self.mktemp(), ("--kafka-listen", f"tcp:{port}:interface=127.0.0.1")) as broker:
            client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
            self.assertEqual(client.list_topics(), [])
            client.close()
        modules = broker.modules()
        self.assertIn("kafka.protocol.metadata", modules)
        self.assertEqual([name for name in HEAVY if name in modules], [])
        self.assertLess(len(modules), MOST)

    def test_a_broker_without_the_listener_imports_nothing_for_it(self) -> None:
        """Some seventy modules fewer."""
        with Broker(self.mktemp()) as broker:
            pass
        found = [name for name in broker.modules() if name.startswith(OF_THE_LISTENER)]
        self.assertEqual(found, [])

    def test_what_the_listener_needs_is_imported_with_the_service(self) -> None:
        """There no collection looks through it: not during the imports, and never after."""
        command = [sys.executable, "-c", _SERVICE, self.mktemp()]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.stdout.strip(), "True True")

    def test_tls_is_there_where_an_endpoint_may_need_it(self) -> None:
        """Twisted's reactor has TLS unless all endpoints are known to have none; pyOpenSSL can be imported anyway."""
        for endpoint, expected in (("ssl:0", "True True"), ("systemd:0", "True True"), ("unix:x", "False False")):
            done = subprocess.run(
                [sys.executable, "-c", _REACTOR, endpoint], check=True, capture_output=True, text=True, timeout=PATIENCE
            )
            self.assertEqual(done.stdout.strip(), expected, endpoint)
