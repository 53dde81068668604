"""Tests of where brokers are: the same words as for every other command, read without Twisted."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.addresses import parse_brokers
from logd.clientcore.endpoints import BrokerEndpoint, parse_endpoints
from logd.errors import ConfigurationError
from logd.spark.blocking.cluster import ClusterSettings


class AddressesTests(SynchronousTestCase):
    """``brokers``."""

    def test_allowed(self) -> None:
        """Hosts and ports, and descriptions of endpoints, which the Deferred clients take too."""
        for text, endpoints in (
            ("a:1, [::1]:2,", [BrokerEndpoint(("a", 1)), BrokerEndpoint(("::1", 2))]),
            ("tcp:a:1,b:2", [BrokerEndpoint(("a", 1)), BrokerEndpoint(("b", 2))]),
            ("tcp:host=a:port=1", [BrokerEndpoint(("a", 1))]),
            ("tls:a:1", [BrokerEndpoint(("a", 1), (None, None, None))]),
            (r"tls:\:\:1:1:trustRoots=C\:/roots", [BrokerEndpoint(("::1", 1), ("C:/roots", None, None))]),
            ("tls:a:1:certificate=c:privateKey=k", [BrokerEndpoint(("a", 1), (None, "c", "k"))]),
            ("ssl:a:1:caCertsDir=r:certKey=c:privateKey=k", [BrokerEndpoint(("a", 1), ("r", "c", "k"))]),
        ):
            self.assertEqual(list(parse_endpoints(text)), endpoints)
            self.assertEqual(len(parse_brokers(text)), len(endpoints))

    def test_refused(self) -> None:
        """What is none is named, with what is allowed; brokers with and without TLS are not mixed."""
        for text in ("a", "a:0", "tcp:a", "tls:a:b", "tls:a:1:trust=r", "unix:/tmp/socket", "tcp:a:1:2", "tls:a:70000"):
            with self.assertRaisesRegex(ConfigurationError, "allowed is HOST:PORT"):
                parse_endpoints(text)
        with self.assertRaisesRegex(ConfigurationError, "at least one"):
            parse_endpoints(" , ")
        with self.assertRaisesRegex(ConfigurationError, "or all without TLS"):
            parse_endpoints("tls:a:1,b:2")

    def test_files(self) -> None:
        """A folder or a file that cannot be read is a sentence."""
        for settings in (
            ClusterSettings(brokers="tls:a:1:trustRoots=/no/such/folder"),
            ClusterSettings(brokers="a:1", tls=True, tls_ca="/no/such/file"),
        ):
            self.assertTrue(settings.secure)
            with self.assertRaisesRegex(ConfigurationError, r"certificates for TLS \(/no/such/f\w+\) cannot be used"):
                settings.dial()
        self.assertFalse(ClusterSettings(brokers="a:1").secure)
