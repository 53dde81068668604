"""Tests of logd.clientcore.endpoints: the addresses that every command takes, read without Twisted."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.addresses import parse_brokers
from logd.clientcore.endpoints import BrokerEndpoint, parse_endpoints
from logd.errors import ConfigurationError
from logd.spark.blocking.cluster import ClusterSettings


class BrokerEndpointTests(SynchronousTestCase):
    """``parse_endpoints``, and the files that an endpoint names."""

    def test_endpoints_are_read_as_other_clients_read_them(self) -> None:
        """Each text gives as many addresses to the Deferred clients."""
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

    def test_a_wrong_endpoint_is_refused_with_the_forms(self) -> None:
        """Brokers with and without TLS cannot be mixed: half of the traffic would be in the clear unseen."""
        for text in ("a", "a:0", "tcp:a", "tls:a:b", "tls:a:1:trust=r", "unix:/tmp/socket", "tcp:a:1:2", "tls:a:70000"):
            with self.assertRaisesRegex(ConfigurationError, "allowed is HOST:PORT"):
                parse_endpoints(text)
        with self.assertRaisesRegex(ConfigurationError, "at least one"):
            parse_endpoints(" , ")
        with self.assertRaisesRegex(ConfigurationError, "or all without TLS"):
            parse_endpoints("tls:a:1,b:2")

    def test_an_unreadable_certificate_is_named(self) -> None:
        """The error is a sentence with the path, not one of OpenSSL's."""
        for settings in (
            ClusterSettings(brokers="tls:a:1:trustRoots=/no/such/folder"),
            ClusterSettings(brokers="a:1", tls=True, tls_ca="/no/such/file"),
        ):
            self.assertTrue(settings.secure)
            with self.assertRaisesRegex(ConfigurationError, r"certificates for TLS \(/no/such/f\w+\) cannot be used"):
                settings.dial()
        self.assertFalse(ClusterSettings(brokers="a:1").secure)
