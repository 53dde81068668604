"""Tests of logd.clientcore.addresses."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.addresses import discovered, name_of, parse_brokers
from logd.errors import ConfigurationError


class ParseBrokersTests(SynchronousTestCase):
    """parse_brokers."""

    def test_reads_hosts_and_ports(self) -> None:
        """Addresses are separated by commas, with or without spaces; IPv6 addresses stand in brackets."""
        self.assertEqual(parse_brokers("a.b:1, [::1]:6667"), (("a.b", 1), ("::1", 6667)))

    def test_reads_endpoint_strings(self) -> None:
        """What is no HOST:PORT is an endpoint's description."""
        self.assertEqual(
            parse_brokers(["tls:h:6668", "unix:/run/x", ("h", 1)]), ("tls:h:6668", "unix:/run/x", ("h", 1))
        )

    def test_refuses_others(self) -> None:
        """What is neither is named, with what is allowed."""
        for wrong in ("", "host", "host:0", "host:99999", "host:", ":6667", "tcp:"):
            with self.subTest(wrong=wrong):
                error = self.assertRaises(ConfigurationError, parse_brokers, wrong)
                self.assertIn("allowed is", str(error))


class DiscoveredTests(SynchronousTestCase):
    """discovered and name_of."""

    def test_keeps_the_kind_of_endpoint(self) -> None:
        """Who came in over TLS goes on over TLS, with the same further settings."""
        self.assertEqual(discovered("b", 2, "tls:a:1:trustRoots=/ca"), "tls:b:2:trustRoots=/ca")
        self.assertEqual(discovered("::1", 2, "tcp:a:1"), "tcp:\\:\\:1:2")

    def test_is_a_plain_address_otherwise(self) -> None:
        """Of other beginnings nothing can be derived."""
        self.assertEqual(discovered("b", 2, ("a", 1)), ("b", 2))
        self.assertEqual(discovered("b", 2, "unix:/run/x"), ("b", 2))

    def test_names(self) -> None:
        """Addresses are shown as they are written."""
        self.assertEqual([name_of(("h", 1)), name_of(("::1", 1)), name_of("unix:/x")], ["h:1", "[::1]:1", "unix:/x"])
