"""Tests of the settings that protect clients of the coordination tree, and of where they come from."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings, Source, ZooKeeperSecurity, broker_settings
from logd.config.zookeeper import security_of_environment
from logd.coord.zookeeper.settings import OWNED_ACL, CoordinationSettings, CoordinationTls
from logd.errors import ConfigurationError
from logd.tap import Options

SECRET = "it's a secret"


class EnvironmentTests(SynchronousTestCase):
    """What variables say."""

    def test_names(self) -> None:
        """A variable is a setting's name; an empty one says nothing."""
        environ = {
            "LOGD_ZOOKEEPER_TLS_ENABLED": "yes",
            "LOGD_ZOOKEEPER_TLS_AUTHORITIES": "",
            "LOGD_ZOOKEEPER_DIGEST_CREDENTIALS": f"me:{SECRET}",
        }
        expected = ZooKeeperSecurity(zookeeper_tls_enabled=True, zookeeper_digest_credentials=f"me:{SECRET}")
        self.assertEqual(security_of_environment(environ), expected)
        self.assertEqual(security_of_environment({}), ZooKeeperSecurity())

    def test_refused(self) -> None:
        """A value that is not allowed is refused with the variable's name."""
        with self.assertRaises(ConfigurationError) as caught:
            security_of_environment({"LOGD_ZOOKEEPER_TLS_ENABLED": "perhaps"})
        self.assertIn("LOGD_ZOOKEEPER_TLS_ENABLED: zookeeper.tls.enabled = 'perhaps'", str(caught.exception))

    def test_brokers(self) -> None:
        """A broker reads them too; what the command line says counts more."""
        options = Options()
        options.environ = {"LOGD_ZOOKEEPER_DIGEST_FILE": "/a", "LOGD_ZOOKEEPER": "h:1"}
        options.parseOptions(["--data", "d"])
        self.assertEqual(options.settings.zookeeper_security.zookeeper_digest_file, "/a")
        options = Options()
        options.environ = {"LOGD_ZOOKEEPER_DIGEST_FILE": "/a", "LOGD_ZOOKEEPER": "h:1"}
        options.parseOptions(["--data", "d", "--set", "zookeeper.digest.file=/b"])
        self.assertEqual(options.settings.zookeeper_security.zookeeper_digest_file, "/b")


class SecretTests(SynchronousTestCase):
    """Credentials are shown to nobody."""

    def test_never_shown(self) -> None:
        """Not by repr, and not by the error for one of another form."""
        settings = broker_settings(Source("f", {"data": "d", "zookeeper.digest.credentials": f"me:{SECRET}"}))
        self.assertEqual(settings.zookeeper_security.zookeeper_digest_credentials, f"me:{SECRET}")
        self.assertNotIn(SECRET, repr(settings))
        for value in (SECRET, f":{SECRET}", 7):
            with self.assertRaises(ConfigurationError) as caught:
                broker_settings(Source("f", {"data": "d", "zookeeper.digest.credentials": value}))
            self.assertIn("allowed is USER:PASSWORD", str(caught.exception))
            self.assertNotIn(SECRET, str(caught.exception))

    def test_file(self) -> None:
        """The first line of a file counts; one that cannot be read is named."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"me:{SECRET}\nand more\n")
        settings = CoordinationSettings.secured("h", ZooKeeperSecurity(zookeeper_digest_file=path))
        self.assertEqual((settings.digests, settings.default_acl), ((f"me:{SECRET}",), OWNED_ACL))
        with self.assertRaises(ConfigurationError) as caught:
            CoordinationSettings.secured("h", ZooKeeperSecurity(zookeeper_digest_file=f"{path}-not"))
        self.assertIn(f"{path}-not", str(caught.exception))


class FittingTests(SynchronousTestCase):
    """What goes together."""

    def test_refused(self) -> None:
        """A half of something is refused, with the names of both."""
        halves = [
            ({"zookeeper_tls_authorities": "a"}, "zookeeper.tls.enabled"),
            ({"zookeeper_tls_enabled": True, "zookeeper_tls_key": "k"}, "zookeeper.tls.certificate"),
            ({"zookeeper_digest_file": "f", "zookeeper_digest_credentials": "a:b"}, "one of them"),
        ]
        for values, words in halves:
            with self.assertRaises(ConfigurationError) as caught:
                ZooKeeperSecurity(**values)  # type: ignore[arg-type]
            self.assertIn(words, str(caught.exception))

    def test_own_tree(self) -> None:
        """A broker with a tree of its own is its client: both ends speak TLS, or none."""
        tls = ZooKeeperSecurity(zookeeper_tls_enabled=True)
        for values in ({"zookeeper_security": tls}, {"zookeeper_listen": "ssl:2181:privateKey=k"}):
            with self.assertRaises(ConfigurationError) as caught:
                BrokerSettings(data="d", **values)
            self.assertIn("contradict each other", str(caught.exception))
        BrokerSettings(data="d", zookeeper_listen="ssl:2181:privateKey=k", zookeeper_security=tls)
        BrokerSettings(data="d", zookeeper_hosts="h:1", zookeeper_security=tls)

    def test_tls(self) -> None:
        """TLS comes as it was said."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8"):
            pass
        security = ZooKeeperSecurity(
            zookeeper_tls_enabled=True, zookeeper_tls_authorities=path, zookeeper_tls_hostname=False
        )
        expected = CoordinationTls(authorities=path, check_hostname=False)
        self.assertEqual(CoordinationSettings.secured("h", security).tls, expected)
        self.assertIsNone(CoordinationSettings.secured("h", ZooKeeperSecurity()).tls)
