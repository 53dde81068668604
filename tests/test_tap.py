"""Tests of the options of ``twistd logd``, and of the service that they make."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from twisted.application.service import IService, MultiService
from twisted.internet import endpoints
from twisted.python.usage import UsageError
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from logd import __version__
from logd.audit_tap import KafkaAudit
from logd.broker.service import BrokerService
from logd.config import BrokerSettings
from logd.console_tap import Repeated
from logd.protocol.implementation import IMPLEMENTATION, REASON
from logd.tap import Options, makeService
from logd.web.service import PagesService


def parsed(*arguments: str) -> Options:
    """Return options as twistd would have parsed them."""
    options = Options()
    options.parseOptions(list(arguments))
    return options


class OptionsTests(TestCase):
    """The options after ``twistd logd``, and the settings that they become."""

    def refused(self, *arguments: str) -> str:
        """Return the message with which these options are refused."""
        with self.assertRaises(UsageError) as caught:
            parsed(*arguments)
        return str(caught.exception)

    def test_a_data_directory_is_enough(self) -> None:
        """Everything else has a default."""
        self.assertEqual(parsed("--data", "d").settings, BrokerSettings(data="d"))

    def test_every_option_becomes_the_setting_of_its_name(self) -> None:
        """Each has the setting's type: numbers are numbers."""
        settings = parsed(
            *("--data", "d", "--listen", "tcp:0", "--advertise", "h:1", "--id", "7", "--http", "tcp:8080")
        ).settings
        self.assertEqual(settings, BrokerSettings(data="d", listen="tcp:0", advertise="h:1", id=7, http="tcp:8080"))

    def test_kafka_listeners_are_given_by_repeated_options(self) -> None:
        """Their order is that of their addresses; options replace the list of a file."""
        path = Path(self.mktemp())
        path.write_text('data = "d"\n[kafka]\nlisten = ["tcp:7"]\nadvertise = ["f:1"]\n')
        options = ("--kafka-listen", "tcp:1", "--kafka-listen=tcp:2", "--kafka-advertise", "-", "--kafka-advertise=a:1")
        settings = parsed("--config", str(path), *options, "--open-to-network").settings
        kafka = settings.kafka
        self.assertEqual((kafka.endpoints, kafka.advertised), (("tcp:1", "tcp:2"), (None, ("a", 1))))
        self.assertTrue(settings.security.open_to_network)
        settings = parsed("--config", str(path), "--set", "kafka.listen=tcp:5").settings
        self.assertEqual((settings.kafka.endpoints, settings.kafka.advertised), (("tcp:5",), (("f", 1),)))
        self.assertFalse(settings.security.open_to_network)
        self.assertIn("kafka.listen = ''", self.refused("--data", "d", "--kafka-listen", ""))
        self.assertIn(
            "is not allowed", self.refused("--data", "d", "--kafka-listen", "tcp:1", "--kafka-listen", "nope:1")
        )

    def test_zookeeper_hosts_come_from_option_setting_or_environment(self) -> None:
        """The environment counts only where neither of the others is given."""
        with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": "env:2181"}):
            settings = parsed("--data", "d").settings
            self.assertEqual(settings.zookeeper_hosts, "env:2181")
            self.assertEqual(settings.origins["zookeeper.hosts"], "LOGD_ZOOKEEPER")
            settings = parsed("--data", "d", "--set", "zookeeper.hosts=zk1,zk2:2182/logd").settings
            self.assertEqual(settings.zookeeper_hosts, "zk1,zk2:2182/logd")
            settings = parsed("--data", "d", "--zookeeper", "[::1]:2181").settings
            self.assertEqual(settings.zookeeper_hosts, "[::1]:2181")
            self.assertEqual(settings.origins["zookeeper.hosts"], "--zookeeper")
        self.assertIn("zookeeper.hosts = 'a b' is not allowed", self.refused("--data", "d", "--zookeeper", "a b"))

    def test_a_tree_of_its_own_beats_the_environment(self) -> None:
        """The environment's address is there for the commands; a broker that is told to serve its tree does."""
        with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": "env:2181"}):
            settings = parsed("--data", "d", "--zookeeper-listen", "tcp:0").settings
            self.assertEqual((settings.zookeeper_hosts, settings.zookeeper_listen), (None, "tcp:0"))
            settings = parsed("--data", "d", "--set", "zookeeper.listen=tcp:0").settings
            self.assertIsNone(settings.zookeeper_hosts)

    def test_the_environment_may_name_the_brokers_own_tree(self) -> None:
        """A variable with that address is meant for the commands: the broker serves the tree."""
        for hosts in ("127.0.0.1:2181", "localhost:2181", "[::1]:2181"):
            with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": hosts}):
                settings = parsed("--data", "d").settings
                self.assertIsNone(settings.zookeeper_hosts)
                self.assertEqual(settings.origins["zookeeper.listen"], "LOGD_ZOOKEEPER")
        self.assertNotIn("zookeeper.listen", parsed("--data", "d").settings.origins)
        with mock.patch.object(
            Options, "environ", {"LOGD_ZOOKEEPER": "localhost:2182", "LOGD_ZOOKEEPER_TLS_ENABLED": "true"}
        ):
            self.assertEqual(parsed("--data", "d").settings.zookeeper_hosts, "localhost:2182")
        for hosts in ("127.0.0.1:2182", "zk:2181", "127.0.0.1:2181/logd", "127.0.0.1:2181,127.0.0.1:2182"):
            with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": hosts}):
                self.assertEqual(parsed("--data", "d").settings.zookeeper_hosts, hosts)

    def test_a_broker_that_has_joined_a_tree_stays_with_it(self) -> None:
        """It does not begin a tree of its own because `logd zookeeper` is at the usual address."""
        data = Path(self.mktemp())
        data.mkdir()
        (data / "meta").touch()
        with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": "127.0.0.1:2181"}):
            self.assertEqual(parsed("--data", str(data)).settings.zookeeper_hosts, "127.0.0.1:2181")
            (data / "coordination").mkdir()
            self.assertIsNone(parsed("--data", str(data)).settings.zookeeper_hosts)

    def test_joining_and_serving_a_tree_contradict_each_other(self) -> None:
        """The error names both settings."""
        text = self.refused("--data", "d", "--zookeeper", "zk:2181", "--zookeeper-listen", "tcp:2182")
        self.assertIn("zookeeper.hosts and zookeeper.listen contradict each other", text)

    def test_errors_under_twistd_are_one_sentence(self) -> None:
        """The status is that of wrong use; twistd would print its whole help first."""
        for arguments, words in ((["--data"], "--data requires"), ([], "data is not set"), (["--colour"], "--colour")):
            options = Options()
            options.parent = mock.Mock(get={}.get)
            with redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
                options.parseOptions(arguments)
            self.assertEqual(ended.exception.code, 2)
            first, second = said.getvalue().splitlines()
            self.assertIn(words, first)
            self.assertEqual(second, '"twistd logd --help" lists the options.')

    def test_options_override_settings_and_settings_the_file(self) -> None:
        """Their order on the command line does not matter."""
        path = Path(self.mktemp())
        path.write_text('data = "file"\nid = 1\nflush.ms = 1\nretention.ms = 1\n')
        settings = parsed("--id", "3", "--set", "id=2", "--config", str(path), "--set", "flush.ms=2").settings
        self.assertEqual((settings.data, settings.id), ("file", 3))
        self.assertEqual((settings.log.flush_ms, settings.log.retention_ms), (2, 1))

    def test_a_wrong_option_is_refused_with_its_reason(self) -> None:
        """The message names the option, the value and what is allowed."""
        self.assertIn("data is not set: give --data", self.refused())
        self.assertIn("id = 'x' is not allowed; allowed is a whole number", self.refused("--data", "d", "--id", "x"))
        self.assertIn("did you mean flush.ms", self.refused("--data", "d", "--set", "flush.m=1"))
        self.assertIn("'nowhere.toml' cannot be read", self.refused("--config", "nowhere.toml"))
        self.assertIn("'extra' is not an option", self.refused("--data", "d", "extra"))
        self.assertIn("message.bytes = 99999999", self.refused("--data", "d", "--set", "message.bytes=99999999"))

    def test_tls_without_its_packages_is_refused(self) -> None:
        """The message says what to install."""

        def parse(reactor: object, description: str) -> None:
            raise ModuleNotFoundError("No module named 'OpenSSL'", name="OpenSSL")

        self.patch(endpoints, "serverFromString", parse)
        text = self.refused("--data", "d", "--listen", "ssl:1:privateKey=k:certKey=c")
        self.assertIn("pip install 'twisted[tls]>=25.5'", text)

    def test_an_endpoint_that_twisted_cannot_read_is_refused(self) -> None:
        """The error comes before the start and names the setting."""
        for option in ("listen", "http", "zookeeper-listen"):
            name = option.replace("-", ".")
            for value, words in (
                ("tcpp:1", "Unknown endpoint type"),
                ("tcp:port=x", "invalid literal"),
                ("6667", "such"),
            ):
                text = self.refused("--data", "d", f"--{option}", value)
                self.assertIn(f"{name} = {value!r} is not allowed", text)
                self.assertIn(words, text)

    def test_the_help_names_every_option_and_default(self) -> None:
        """It has an example that works as well."""
        text = str(Options())
        for word in (
            "--data",
            "--listen",
            "--zookeeper",
            "--zookeeper-listen",
            "--advertise",
            "--id",
            "--http",
            "--config",
            "--set",
            "--kafka-listen",
            "--kafka-advertise",
            "--open-to-network",
            "6667",
            "2181",
            "Try it",
        ):
            self.assertIn(word, text)

    def test_the_version_is_that_of_logd(self) -> None:
        """The option of twistd itself would print Twisted's. The line is that of ``logd --version``."""
        with redirect_stdout(io.StringIO()) as out, self.assertRaises(SystemExit):
            parsed("--version")
        self.assertEqual(out.getvalue(), f"logd {__version__} (loops: {IMPLEMENTATION}; {REASON})\n")


class MakeServiceTests(TestCase):
    """The wiring, which opens nothing, since twistd forks after it."""

    def test_making_the_service_touches_no_data_directory(self) -> None:
        """The service is the broker alone if there are no pages."""
        data = self.mktemp()
        service = makeService(parsed("--data", data))
        self.assertIsInstance(service, BrokerService)
        verifyObject(IService, service)
        self.assertFalse(Path(data).exists())

    def test_pages_start_before_the_broker(self) -> None:
        """A port in use is then found before data is touched."""
        service = makeService(parsed("--data", self.mktemp(), "--http", "tcp:0:interface=127.0.0.1"))
        assert isinstance(service, MultiService)
        pages, broker, sampling = service.services
        self.assertIsInstance(broker, BrokerService)
        self.assertIsInstance(pages, PagesService)
        self.assertIsInstance(sampling, Repeated)

    def test_the_audit_starts_behind_the_broker(self) -> None:
        """It publishes over the broker's port; without a listener for Kafka's clients there is nothing to count."""
        audit = ("--data", self.mktemp(), "--set", "kafka.audit.enabled=true")
        self.assertIsInstance(makeService(parsed(*audit)), BrokerService)
        service = makeService(parsed(*audit, "--kafka-listen", "tcp:0:interface=127.0.0.1"))
        assert isinstance(service, MultiService)
        broker, counting = service.services
        self.assertIsInstance(broker, BrokerService)
        self.assertIsInstance(counting, KafkaAudit)

    def test_the_broker_knows_if_it_runs_in_the_foreground(self) -> None:
        """A failure to start is then shown to the person at the terminal without a traceback."""
        options = parsed("--data", "d")
        self.assertFalse(options.foreground)
        options.parent = mock.Mock(get={"nodaemon": 1}.get)
        self.assertTrue(options.foreground)
