"""Tests of the settings that protect clients of the coordination tree, and of their sources."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings, Source, ZooKeeperSecurity, broker_settings
from logd.config.zookeeper import security_of_environment
from logd.coord.access_lists import OWNED_ACL
from logd.coord.zookeeper.settings import CoordinationSettings, CoordinationTls
from logd.errors import ConfigurationError
from logd.tap import Options

SECRET = "it's a secret"


class EnvironmentTests(SynchronousTestCase):
    """Settings from environment variables."""

    def test_a_variable_is_named_after_its_setting(self) -> None:
        """An empty one counts as not set."""
        environ = {
            "LOGD_ZOOKEEPER_TLS_ENABLED": "yes",
            "LOGD_ZOOKEEPER_TLS_AUTHORITIES": "",
            "LOGD_ZOOKEEPER_DIGEST_CREDENTIALS": f"me:{SECRET}",
        }
        expected = ZooKeeperSecurity(zookeeper_tls_enabled=True, zookeeper_digest_credentials=f"me:{SECRET}")
        self.assertEqual(security_of_environment(environ), expected)
        self.assertEqual(security_of_environment({}), ZooKeeperSecurity())

    def test_a_bad_variable_is_refused_by_name(self) -> None:
        """The operator has to know which one to mend."""
        with self.assertRaises(ConfigurationError) as caught:
            security_of_environment({"LOGD_ZOOKEEPER_TLS_ENABLED": "perhaps"})
        self.assertIn("LOGD_ZOOKEEPER_TLS_ENABLED: zookeeper.tls.enabled = 'perhaps'", str(caught.exception))

    def test_a_broker_reads_the_variables_too(self) -> None:
        """A setting on the command line overrides them."""
        options = Options()
        options.environ = {"LOGD_ZOOKEEPER_DIGEST_FILE": "/a", "LOGD_ZOOKEEPER": "h:1"}
        options.parseOptions(["--data", "d"])
        self.assertEqual(options.settings.zookeeper_security.zookeeper_digest_file, "/a")
        options = Options()
        options.environ = {"LOGD_ZOOKEEPER_DIGEST_FILE": "/a", "LOGD_ZOOKEEPER": "h:1"}
        options.parseOptions(["--data", "d", "--set", "zookeeper.digest.file=/b"])
        self.assertEqual(options.settings.zookeeper_security.zookeeper_digest_file, "/b")


class SecretTests(SynchronousTestCase):
    """Credentials, which appear nowhere."""

    def test_credentials_are_never_shown(self) -> None:
        """Neither the repr nor the error for a wrong form contains them."""
        settings = broker_settings(Source("f", {"data": "d", "zookeeper.digest.credentials": f"me:{SECRET}"}))
        self.assertEqual(settings.zookeeper_security.zookeeper_digest_credentials, f"me:{SECRET}")
        self.assertNotIn(SECRET, repr(settings))
        for value in (SECRET, f":{SECRET}", 7):
            with self.assertRaises(ConfigurationError) as caught:
                broker_settings(Source("f", {"data": "d", "zookeeper.digest.credentials": value}))
            self.assertIn("allowed is USER:PASSWORD", str(caught.exception))
            self.assertNotIn(SECRET, str(caught.exception))

    def test_credentials_may_come_from_a_file(self) -> None:
        """The first line of the file counts, and a file that cannot be read is named."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"me:{SECRET}\nand more\n")
        settings = CoordinationSettings.secured("h", ZooKeeperSecurity(zookeeper_digest_file=path))
        self.assertEqual((settings.digests, settings.default_acl), ((f"me:{SECRET}",), OWNED_ACL))
        with self.assertRaises(ConfigurationError) as caught:
            CoordinationSettings.secured("h", ZooKeeperSecurity(zookeeper_digest_file=f"{path}-not"))
        self.assertIn(f"{path}-not", str(caught.exception))
        Path(path).write_text("only-a-password\n", encoding="utf-8")
        with self.assertRaises(ConfigurationError) as caught:
            CoordinationSettings.secured("h", ZooKeeperSecurity(zookeeper_digest_file=path))
        self.assertIn(f"zookeeper.digest.file = {path!r}", str(caught.exception))
        self.assertNotIn("only-a-password", str(caught.exception))


class FittingTests(SynchronousTestCase):
    """Settings that need or exclude each other."""

    def test_half_a_setting_is_refused(self) -> None:
        """The error names the other half."""
        halves = [
            ({"zookeeper_tls_authorities": "a"}, "zookeeper.tls.enabled"),
            ({"zookeeper_tls_enabled": True, "zookeeper_tls_key": "k"}, "zookeeper.tls.certificate"),
            ({"zookeeper_digest_file": "f", "zookeeper_digest_credentials": "a:b"}, "one of them"),
        ]
        for values, words in halves:
            with self.assertRaises(ConfigurationError) as caught:
                ZooKeeperSecurity(**values)  # type: ignore[arg-type]
            self.assertIn(words, str(caught.exception))

    def test_an_own_tree_and_its_client_agree_on_tls(self) -> None:
        """A broker with an embedded tree is its client, so both ends speak TLS or none."""
        tls = ZooKeeperSecurity(zookeeper_tls_enabled=True)
        for values in ({"zookeeper_security": tls}, {"zookeeper_listen": "ssl:2181:privateKey=k"}):
            with self.assertRaises(ConfigurationError) as caught:
                BrokerSettings(data="d", **values)
            self.assertIn("contradict each other", str(caught.exception))
        BrokerSettings(data="d", zookeeper_listen="ssl:2181:privateKey=k", zookeeper_security=tls)
        BrokerSettings(data="d", zookeeper_hosts="h:1", zookeeper_security=tls)

    def test_the_tls_settings_reach_the_client(self) -> None:
        """A setting lost on the way would weaken the connection unseen."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8"):
            pass
        security = ZooKeeperSecurity(
            zookeeper_tls_enabled=True, zookeeper_tls_authorities=path, zookeeper_tls_hostname=False
        )
        expected = CoordinationTls(authorities=path, check_hostname=False)
        self.assertEqual(CoordinationSettings.secured("h", security).tls, expected)
        self.assertIsNone(CoordinationSettings.secured("h", ZooKeeperSecurity()).tls)
