"""Tests of ``twistd logd``'s options and wiring."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from twisted.application.service import IService, MultiService
from twisted.python.usage import UsageError
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from logd import __version__
from logd.broker.service import BrokerService
from logd.config import BrokerSettings
from logd.tap import Options, makeService


def parsed(*arguments: str) -> Options:
    """Options as twistd would have parsed them."""
    options = Options()
    options.parseOptions(list(arguments))
    return options


class OptionsTests(TestCase):
    """What stands after ``twistd logd``."""

    def refused(self, *arguments: str) -> str:
        """Why these options are not allowed."""
        with self.assertRaises(UsageError) as caught:
            parsed(*arguments)
        return str(caught.exception)

    def test_data_alone(self) -> None:
        """A data directory is enough."""
        self.assertEqual(parsed("--data", "d").settings, BrokerSettings(data="d"))

    def test_all_options(self) -> None:
        """Every option arrives as the setting of its name, of the right type."""
        settings = parsed(
            *("--data", "d", "--listen", "tcp:0", "--advertise", "h:1", "--id", "7", "--http", "tcp:8080")
        ).settings
        self.assertEqual(settings, BrokerSettings(data="d", listen="tcp:0", advertise="h:1", id=7, http="tcp:8080"))

    def test_coordination(self) -> None:
        """Where the tree is: an option or a setting, and the environment where none of them says anything."""
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

    def test_an_own_tree_beats_the_environment(self) -> None:
        """A broker that is told where to serve its tree serves it, whatever the environment has for the commands."""
        with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": "env:2181"}):
            settings = parsed("--data", "d", "--zookeeper-listen", "tcp:0").settings
            self.assertEqual((settings.zookeeper_hosts, settings.zookeeper_listen), (None, "tcp:0"))
            settings = parsed("--data", "d", "--set", "zookeeper.listen=tcp:0").settings
            self.assertIsNone(settings.zookeeper_hosts)

    def test_the_environment_names_the_own_tree(self) -> None:
        """A variable with the address of the broker's own tree is meant for the commands: the broker serves it."""
        for hosts in ("127.0.0.1:2181", "localhost:2181", "[::1]:2181"):
            with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": hosts}):
                self.assertIsNone(parsed("--data", "d").settings.zookeeper_hosts)
        with mock.patch.object(
            Options, "environ", {"LOGD_ZOOKEEPER": "localhost:2182", "LOGD_ZOOKEEPER_TLS_ENABLED": "true"}
        ):
            self.assertEqual(parsed("--data", "d").settings.zookeeper_hosts, "localhost:2182")
        for hosts in ("127.0.0.1:2182", "zk:2181", "127.0.0.1:2181/logd", "127.0.0.1:2181,127.0.0.1:2182"):
            with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": hosts}):
                self.assertEqual(parsed("--data", "d").settings.zookeeper_hosts, hosts)

    def test_a_data_directory_that_has_joined_goes_on_to(self) -> None:
        """A broker of `logd zookeeper` does not begin a tree of its own because that is at the usual address."""
        data = Path(self.mktemp())
        data.mkdir()
        (data / "meta").touch()
        with mock.patch.object(Options, "environ", {"LOGD_ZOOKEEPER": "127.0.0.1:2181"}):
            self.assertEqual(parsed("--data", str(data)).settings.zookeeper_hosts, "127.0.0.1:2181")
            (data / "coordination").mkdir()
            self.assertIsNone(parsed("--data", str(data)).settings.zookeeper_hosts)

    def test_one_tree(self) -> None:
        """To join a tree and to serve one contradict each other."""
        text = self.refused("--data", "d", "--zookeeper", "zk:2181", "--zookeeper-listen", "tcp:2182")
        self.assertIn("zookeeper.hosts and zookeeper.listen contradict each other", text)

    def test_errors_under_twistd(self) -> None:
        """The sentence stands alone, and the status is that of wrong use: twistd would print its whole help first."""
        for arguments, words in ((["--data"], "--data requires"), ([], "data is not set"), (["--colour"], "--colour")):
            options = Options()
            options.parent = mock.Mock(get={}.get)
            with redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
                options.parseOptions(arguments)
            self.assertEqual(ended.exception.code, 2)
            first, second = said.getvalue().splitlines()
            self.assertIn(words, first)
            self.assertEqual(second, '"twistd logd --help" lists the options.')

    def test_order_of_sources(self) -> None:
        """The file is overridden by --set, and that by the option, wherever they stand."""
        path = Path(self.mktemp())
        path.write_text('data = "file"\nid = 1\nflush.ms = 1\nretention.ms = 1\n')
        settings = parsed("--id", "3", "--set", "id=2", "--config", str(path), "--set", "flush.ms=2").settings
        self.assertEqual((settings.data, settings.id), ("file", 3))
        self.assertEqual((settings.log.flush_ms, settings.log.retention_ms), (2, 1))

    def test_refused(self) -> None:
        """What is wrong is named with its option, the value and what is allowed."""
        self.assertIn("data is not set: give --data", self.refused())
        self.assertIn("id = 'x' is not allowed; allowed is a whole number", self.refused("--data", "d", "--id", "x"))
        self.assertIn("did you mean flush.ms", self.refused("--data", "d", "--set", "flush.m=1"))
        self.assertIn("'nowhere.toml' cannot be read", self.refused("--config", "nowhere.toml"))
        self.assertIn("'extra' is not an option", self.refused("--data", "d", "extra"))
        self.assertIn("message.bytes = 99999999", self.refused("--data", "d", "--set", "message.bytes=99999999"))

    def test_endpoints(self) -> None:
        """An endpoint that Twisted cannot read is refused at once, and named."""
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

    def test_help(self) -> None:
        """The help names every option, the defaults and an example that works."""
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
            "6667",
            "2181",
            "Try it",
        ):
            self.assertIn(word, text)

    def test_version(self) -> None:
        """--version tells the project's, not Twisted's."""
        with redirect_stdout(io.StringIO()) as out, self.assertRaises(SystemExit):
            parsed("--version")
        self.assertEqual(out.getvalue(), f"logd {__version__}\n")


class MakeServiceTests(TestCase):
    """The wiring, which opens nothing."""

    def test_broker(self) -> None:
        """Without pages the service is the broker, and its data directory is not made yet."""
        data = self.mktemp()
        service = makeService(parsed("--data", data))
        self.assertIsInstance(service, BrokerService)
        verifyObject(IService, service)
        self.assertFalse(Path(data).exists())

    def test_pages(self) -> None:
        """With --http the pages come first, so that a port in use is found before data is touched."""
        service = makeService(parsed("--data", self.mktemp(), "--http", "tcp:0:interface=127.0.0.1"))
        assert isinstance(service, MultiService)
        pages, broker = service.services
        self.assertIsInstance(broker, BrokerService)
        self.assertNotIsInstance(pages, BrokerService)

    def test_foreground(self) -> None:
        """The broker is told whether a person is watching."""
        options = parsed("--data", "d")
        self.assertFalse(options.foreground)
        options.parent = mock.Mock(get={"nodaemon": 1}.get)
        self.assertTrue(options.foreground)
