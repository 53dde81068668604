"""Clients over TLS as docs/operations.md describes it: a certificate made here, trusted by a folder that holds it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import skipUnless

import attrs
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable
from logd.protocol.message import Message
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.python_process import run_python, start_python
from tests.integration.peers import PATIENCE
from tests.integration.shared_servers import folder_of_process

try:
    from twisted.internet import ssl as twisted_ssl
except ImportError:  # an extra: logd[tls]
    twisted_ssl = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parents[3]
LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]


def make_certificate(folder: Path) -> None:
    """Put key.pem and cert.pem for this machine into a folder; all tests of a process have the same."""
    shutil.copytree(_certificate(), folder, dirs_exist_ok=True)


@functools.cache
def _certificate() -> Path:
    """Make a key and a certificate, as the documentation says, and return their folder."""
    folder = Path(folder_of_process())
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=logd -keyout key.pem -out cert.pem "
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@skipUnless(twisted_ssl is not None, "TLS needs the extra logd[tls]")
class TlsClientTests(SynchronousTestCase):
    """A broker that accepts only TLS, and pauses producers early."""

    def setUp(self) -> None:
        """Make a certificate, trust it, start the broker."""
        self.folder = Path(os.path.abspath(self.mktemp()))
        trusted = self.folder / "trusted"
        trusted.mkdir(parents=True)
        make_certificate(self.folder)
        shutil.copy(self.folder / "cert.pem", trusted)
        port = free_port()
        listen = f"ssl:{port}:privateKey={self.folder}/key.pem:certKey={self.folder}/cert.pem:interface=127.0.0.1"
        options = ("--listen", listen, "--set", "unflushed.bytes=200000", "--set", "topics.partitions=2")
        self.broker = BrokerProcess(str(self.folder / "data"), options, port=port)
        self.broker.start()
        self.addCleanup(self.broker.kill)
        self.address = f"tls:localhost:{port}:trustRoots={trusted}"

    def logd(self, *arguments: str, address: str | None = None, given: bytes = b"", status: int = 0) -> bytes:
        """Run a command to its end, check its exit status, and return its output."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_BROKER": address or self.address}
        done: subprocess.CompletedProcess[bytes] = run_python(
            [*LOGD, *arguments], input=given, capture_output=True, env=env, timeout=2 * PATIENCE, check=False
        )
        self.errors = done.stderr.decode()
        self.assertEqual(done.returncode, status, self.errors)
        return done.stdout

    def test_lines_come_back_over_tls(self) -> None:
        """Megabytes of short and long lines, while the broker pauses the producer now and then."""
        lines = [b"%d %s" % (number, os.urandom(50).hex().encode() * (number % 40)) for number in range(3000)]
        lines.append(b"x" * 900_000)
        self.logd("produce", "t", given=b"\n".join(lines) + b"\n")
        found = self.logd("consume", "t", "--exit-at-end").splitlines()
        self.assertEqual(sorted(found), sorted(lines))
        self.assertEqual(self.logd("topics", "list").split(), [b"t", b"2"])

    def test_clients_without_trust_or_tls_are_refused(self) -> None:
        """Both end with status 3; a client that trusts the certificate is served as before."""
        empty = self.folder / "empty"
        empty.mkdir()
        self.logd("topics", "list", address=f"tls:localhost:{self.broker.port}:trustRoots={empty}", status=3)
        self.assertIn("certificate verify failed", self.errors)
        plain = start_python(
            [*LOGD, "topics", "list", "--broker", self.broker.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.addCleanup(plain.communicate)
        self.addCleanup(plain.kill)
        _, errors = plain.communicate(timeout=PATIENCE)
        self.assertEqual(plain.returncode, 3, errors)
        self.assertEqual(self.logd("topics", "list"), b"")

    def test_an_import_finds_its_brokers_over_tls(self) -> None:
        """It takes a tls: endpoint as every command does, or --tls and --tls-ca beside a plain address."""
        settings = ClusterSettings(brokers=self.address)
        with BlockingCluster(settings) as cluster:
            producer = ExecutorProducer(cluster)
            producer.send("t", Message(b"line"), 0)
            producer.flush()
        dry = ("import", "--topics", "t", "--to", str(self.folder / "files"), "--dry-run", "--json")
        plain = f"localhost:{self.broker.port}"
        for more in ((), ("--broker", plain, "--tls-ca", str(self.folder / "cert.pem"))):
            self.assertEqual(json.loads(self.logd(*dry, *more))["bytes"], 13)
        self.logd(*dry, "--broker", plain, "--tls", "--timeout", "0.1", status=3)
        self.assertIn("certificate verify failed", self.errors)

    def test_the_blocking_client_checks_every_broker(self) -> None:
        """Spark's workers use it: brokers that metadata name are reached by TLS too, and their certificates checked."""
        settings = ClusterSettings(
            brokers=f"localhost:{self.broker.port}", tls=True, tls_ca=str(self.folder / "cert.pem"), retry_timeout=0.2
        )
        with BlockingCluster(settings) as cluster:
            producer = ExecutorProducer(cluster)
            values = [b"%05d" % number * 20 for number in range(5000)]
            for value in values:
                producer.send("t", Message(value), 1)
            producer.flush()
            log = cluster.describe("t", 1)
            reader = RangeReader(cluster, IdRange("t", log.uuid, 1, 0, log.visible_end))
            self.assertEqual([value for rows in reader.rows() for value in rows.values], values)
        with BlockingCluster(ClusterSettings(brokers=self.address)) as cluster:
            self.assertEqual(cluster.topic("t").name, "t")
        with BlockingCluster(attrs.evolve(settings, tls_ca=None)) as cluster:
            error = self.assertRaises(BrokerUnavailable, cluster.metadata, None)
            self.assertIn("certificate verify failed", str(error))
