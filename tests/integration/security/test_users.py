"""Users at a real broker: by every protocol, with real clients, by password and by certificate.

One broker serves all.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import skipUnless
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import attrs
from attrs import frozen
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.aio import Producer as AsyncProducer
from logd.errors import AuthenticationFailed
from logd.net.credentials import basic
from logd.security.credentials import Credentials
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.python_process import run_python
from tests.integration.peers import PATIENCE
from tests.integration.shared_servers import folder_of_process
from tests.integration.topics import fill_topic

try:
    from twisted.internet import ssl as twisted_ssl
except ImportError:  # an extra: logd[tls]
    twisted_ssl = None  # type: ignore[assignment]

BLOCKING = (sys.executable, str(Path(__file__).with_name("blocking_clients.py")))
LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
ROOT, ANN = ("root", "the password of root"), ("ann", "the password of ann")


@frozen
class Place:
    """A broker with the superuser root and the user ann, and its ports."""

    broker: BrokerProcess
    folder: Path
    scram: str
    tls: str
    http: str

    def logd(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        named = {"LOGD_BROKER": self.broker.address, "LOGD_ZOOKEEPER": self.broker.coordination, **environment}
        env = {**os.environ, **named}
        return run_python([*LOGD, *arguments], capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)

    def file(self, name: str) -> str:
        """Return the path of a file of the folder."""
        return str(self.folder / name)


def certificates(folder: Path) -> None:
    """Make an authority (ca), and certificates of a server, the user ann, a false broker, and a stranger (mallory)."""

    def run(command: str) -> None:
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)

    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for authority in ("ca", "other"):
        run(f"openssl req -x509 {key} -days 2 -subj /CN={authority} -keyout {authority}.key -out {authority}.pem")
    for name, authority in (("server", "ca"), ("ann", "ca"), ("logd-broker", "ca"), ("mallory", "other")):
        run(f"openssl req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr")
        run(
            f"openssl x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -days 2 -extfile names "
            f"-out {name}.pem"
        )


@functools.cache
def place() -> Place:
    """Return the broker of this module, which ends with the process, with its users added by the command."""
    folder = Path(folder_of_process())
    certificates(folder)
    scram, tls, http = free_port(), free_port(), free_port()
    keys = f"privateKey={folder}/server.key:certKey={folder}/server.pem"
    settings = {
        "security.required": "true",
        "security.superusers": "root",
        "security.client.authorities": f"{folder}/ca.pem",
        "topics.partitions": "1",
    }
    options = [each for name, value in settings.items() for each in ("--set", f"{name}={value}")]
    for endpoint in (f"tcp:{scram}:interface=127.0.0.1", f"ssl:{tls}:{keys}:interface=127.0.0.1"):
        options += ["--kafka-listen", endpoint]
    broker = BrokerProcess(str(folder / "data"), (*options, "--http", f"tcp:{http}:interface=127.0.0.1"))
    broker.start()
    atexit.register(broker.kill)
    found = Place(broker, folder, f"127.0.0.1:{scram}", f"localhost:{tls}", f"http://127.0.0.1:{http}")
    for name, password in (ROOT, ANN):
        Path(found.file(f"{name}.password")).write_text(password + "\n")
        done = found.logd("users", "add", name, "--password-file", found.file(f"{name}.password"))
        if done.returncode:
            raise AssertionError(done.stderr)
    done = found.logd("acl", "add", "ann", "--allow", "read", "--topic", "t")
    fill_topic(broker.address, "t", [b"hello"], user=Credentials(*ROOT))
    return found


class NativeUsersTests(SynchronousTestCase):
    """Our own clients."""

    def test_commands(self) -> None:
        """The user from the environment; the password is in no argument, and a wrong one is said to be wrong."""
        here = place()
        done = here.logd("topics", "list", LOGD_USER="root", LOGD_PASSWORD_FILE=here.file("root.password"))
        self.assertEqual((done.returncode, done.stdout.split()[-2:]), (0, ["t", "1"]), done.stderr)
        done = here.logd("topics", "list", LOGD_USER="root", LOGD_PASSWORD="wrong")
        refusal = "logd: user 'root': the user or the password is wrong"
        self.assertEqual((done.returncode, done.stderr.strip()), (1, refusal))
        self.assertEqual(
            set(json.loads(here.logd("users", "list", "--json").stdout)) & {"ann", "root"}, {"ann", "root"}
        )
        done = here.logd("users", "add", "ann", "--password-file", here.file("ann.password"))
        self.assertEqual(done.returncode, 1)

    def test_all_kinds_of_clients(self) -> None:
        """Blocking, asyncio, and that of Spark's executors; with the user, wrong, and without."""
        address = place().broker.address
        user, password = ANN
        done = subprocess.run(
            [*BLOCKING, "rights", address, user, password], capture_output=True, text=True, timeout=PATIENCE
        )
        self.assertEqual(done.stdout.splitlines(), ["not allowed", "not proved", "not proved"], done.stderr)

        async def produce(**settings: Any) -> None:
            async with AsyncProducer(address, **settings) as producer:
                await producer.send("aio", b"from asyncio")

        asyncio.run(produce(user=ROOT[0], password_file=place().file("root.password")))
        for wrong in ({"user": "ann", "password": "wrong"}, {"user": "bob", "password": "x"}):
            with self.assertRaises(AuthenticationFailed):
                asyncio.run(produce(**wrong))
        settings = ClusterSettings(brokers=address, retry_timeout=0.0)
        for credentials, expected in ((Credentials(*ANN), ["t"]), (None, [])):
            with BlockingCluster(attrs.evolve(settings, credentials=credentials)) as cluster:
                self.assertEqual([each.topic for each in cluster.metadata(None).topics], expected)
        with (
            BlockingCluster(attrs.evolve(settings, credentials=Credentials("ann", "wrong"))) as cluster,
            self.assertRaises(AuthenticationFailed),
        ):
            cluster.metadata(None)

    def test_a_removed_user_is_cut_off_within_a_second(self) -> None:
        """While it waits for messages."""
        here = place()
        path = here.file("eve.password")
        Path(path).write_text("of eve")
        here.logd("users", "add", "eve", "--password-file", path)
        here.logd("acl", "add", "eve", "--allow", "read", "--topic", "t")
        reader = subprocess.Popen(
            [*BLOCKING, "cut", here.broker.address, "eve", path], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(reader.kill)
        assert reader.stdout is not None
        self.assertEqual(reader.stdout.readline(), "reading\n")
        self.assertEqual(here.logd("users", "remove", "eve").returncode, 0)
        self.assertEqual(reader.communicate(timeout=PATIENCE)[0], "cut off\n")
        text = Path(here.broker.log).read_text()
        self.assertIn("the user eve was removed, or has another password", text)

    def test_a_rule_for_a_name_without_a_user_is_told(self) -> None:
        """It may be a slip of the pen, and a denial that denies nothing."""
        here = place()
        for name, told in (("anm", "There is no user anm"), ("ann", "")):
            change = (name, "--deny", "alter", "--topic", "none")
            added = here.logd("acl", "add", *change)
            self.assertEqual((added.returncode, added.stderr[: len("There is no user anm")]), (0, told))
            here.logd("acl", "remove", *change)

    def test_no_secret_is_in_a_log(self) -> None:
        """Neither the passwords nor what is kept of them."""
        here = place()
        text = Path(here.broker.log).read_text()
        for secret in (ROOT[1], ANN[1], "stored_key", "server_key", "SCRAM-SHA-256:"):
            self.assertNotIn(secret, text)


class HttpUsersTests(SynchronousTestCase):
    """The pages."""

    def get(self, path: str, user: str = "", password: str = "") -> tuple[int, Any]:
        """Return status and body."""
        request = Request(place().http + path)
        if user:
            request.add_header("Authorization", basic(user, password))
        try:
            with urlopen(request, timeout=PATIENCE) as response:
                return response.status, response.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    def test_pages_ask_for_a_user(self) -> None:
        """And health says little to others; a right password does not cost its hash again."""
        self.assertEqual(self.get("/health"), (200, b'{"status": "ok"}\n'))
        self.assertEqual(json.loads(self.get("/health", *ROOT)[1])["partitions"] > 0, True)
        self.assertEqual([self.get("/metrics", *each)[0] for each in ((), ANN, ROOT)], [401, 403, 200])
        self.assertEqual([self.get("/subjects", *each)[0] for each in ((), ANN, ROOT)], [401, 200, 200])
        begun = time.perf_counter()
        self.assertEqual(self.get("/metrics", "root", "wrong")[0], 401)
        self.assertGreater(time.perf_counter() - begun, 0.9)


@skipUnless(twisted_ssl is not None, "TLS needs the extra logd[tls]")
class KafkaUsersTests(SynchronousTestCase):
    """Real clients of Kafka."""

    #: (security protocol, mechanism), and whether a broker has to accept them.
    WAYS = (
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "PLAIN"),
    )

    def setUp(self) -> None:
        """Start the broker."""
        self.place = place()

    def bootstrap(self, protocol: str) -> str:
        """Return the address for a protocol."""
        return self.place.tls if protocol.endswith("SSL") else self.place.scram

    def confluent(self, protocol: str, more: dict[str, Any], seconds: float = PATIENCE) -> set[str]:
        """Return the topics that confluent-kafka sees."""
        from confluent_kafka.admin import AdminClient

        settings = {
            "bootstrap.servers": self.bootstrap(protocol),
            "security.protocol": protocol,
            "ssl.ca.location": self.place.file("ca.pem"),
            "log_level": 0,
            **more,
        }
        return set(AdminClient(settings).list_topics(timeout=seconds).topics)

    def test_confluent_kafka(self) -> None:
        """Each way, with the right and with a wrong password."""
        from confluent_kafka import KafkaException

        for protocol, mechanism in self.WAYS:
            more = {"sasl.mechanism": mechanism, "sasl.username": "ann", "sasl.password": ANN[1]}
            self.assertEqual(self.confluent(protocol, more), {"t"}, (protocol, mechanism))
        more = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "wrong"}
        with self.assertRaises(KafkaException):
            self.confluent("SASL_SSL", more, 1.5)

    def test_kcat(self) -> None:
        """That of Debian 12, whose librdkafka is older than confluent-kafka's: it repeats its nonce in SCRAM."""
        program = shutil.which("kcat")
        if program is None:
            raise SkipTest("kcat is not installed (apt-get install kcat)")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            for password, status in ((ANN[1], 0), ("wrong", 1)):
                settings = ("security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}", "sasl.username=ann")
                words = [word for each in (*settings, f"sasl.password={password}") for word in ("-X", each)]
                seconds = 2.0 if status else PATIENCE
                command = [program, "-b", self.bootstrap("SASL_PLAINTEXT"), "-L", "-m", f"{seconds:.0f}"]
                ran = subprocess.run([*command, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
                self.assertEqual(ran.returncode, status, ran.stderr)
                self.assertEqual('topic "t"' in ran.stdout, not status)

    def test_kafka_python(self) -> None:
        """A record is read by SCRAM-SHA-512 and by PLAIN; a wrong password ends the client."""
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        def read(protocol: str, mechanism: str, password: str, patience: float = PATIENCE) -> bytes:
            consumer = KafkaConsumer(
                "t",
                bootstrap_servers=self.bootstrap(protocol),
                security_protocol=protocol,
                sasl_mechanism=mechanism,
                sasl_plain_username="ann",
                sasl_plain_password=password,
                ssl_cafile=self.place.file("ca.pem"),
                auto_offset_reset="earliest",
                consumer_timeout_ms=int(PATIENCE * 1000),
                bootstrap_timeout_ms=int(patience * 1000),
            )
            try:
                return bytes(next(consumer).value)
            finally:
                consumer.close()

        for protocol, mechanism in self.WAYS[1::2]:
            self.assertEqual(read(protocol, mechanism, ANN[1]), b"hello", (protocol, mechanism))
        with self.assertRaises(KafkaError):
            read(*self.WAYS[0], "wrong", 1.5)

    def test_aiokafka(self) -> None:
        """A record is read by SCRAM-SHA-512 and by PLAIN; a wrong password fails."""
        from aiokafka import AIOKafkaConsumer, TopicPartition
        from aiokafka.errors import KafkaError

        context = ssl.create_default_context(cafile=self.place.file("ca.pem"))

        async def read(protocol: str, mechanism: str, password: str) -> bytes:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap(protocol),
                security_protocol=protocol,
                sasl_mechanism=mechanism,
                sasl_plain_username="ann",
                sasl_plain_password=password,
                ssl_context=context,
                auto_offset_reset="earliest",
            )
            await consumer.start()
            try:
                consumer.assign([TopicPartition("t", 0)])
                return bytes((await consumer.getone()).value)
            finally:
                await consumer.stop()

        for protocol, mechanism in self.WAYS[1::2]:
            self.assertEqual(asyncio.run(read(protocol, mechanism, ANN[1])), b"hello", (protocol, mechanism))
        with self.assertRaises(KafkaError):
            asyncio.run(read(*self.WAYS[0], "wrong"))

    def test_plain_is_refused_outside_tls(self) -> None:
        """A client that insists gets no connection."""
        from confluent_kafka import KafkaException

        more = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": ANN[1]}
        with self.assertRaises(KafkaException):
            self.confluent("SASL_PLAINTEXT", more, 0.5)

    def test_certificates(self) -> None:
        """The common name is the user; that of brokers is refused, and who has none that counts is anonymous."""
        from confluent_kafka import KafkaException

        def named(name: str) -> dict[str, str]:
            return {
                "ssl.certificate.location": self.place.file(f"{name}.pem"),
                "ssl.key.location": self.place.file(f"{name}.key"),
            }

        self.assertEqual(self.confluent("SSL", named("ann")), {"t"})
        self.assertEqual(self.confluent("SSL", {}), set())
        # Its library sends no certificate of an authority that the broker does not name.
        self.assertEqual(self.confluent("SSL", named("mallory")), set())
        with self.assertRaises(KafkaException):
            self.confluent("SSL", named("logd-broker"), 0.5)
        with self.assertRaises(ssl.SSLError):
            self.force("mallory")

    def force(self, name: str) -> None:
        """Connect with a certificate, whatever authorities the broker names, and wait for the broker's verdict."""
        context = ssl.create_default_context(cafile=self.place.file("ca.pem"))
        context.load_cert_chain(self.place.file(f"{name}.pem"), self.place.file(f"{name}.key"))
        host, _, port = self.place.tls.partition(":")
        with (
            socket.create_connection((host, int(port)), PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            tls.recv(1)
