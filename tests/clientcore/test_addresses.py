"""Tests of logd.clientcore.addresses."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.addresses import discovered, kind_hint, name_of, parse_brokers
from logd.errors import ConfigurationError


class ParseBrokersTests(SynchronousTestCase):
    """``parse_brokers``."""

    def test_addresses_are_separated_by_commas(self) -> None:
        """Spaces may stand between them, and IPv6 addresses are in brackets."""
        self.assertEqual(parse_brokers("a.b:1, [::1]:6667"), (("a.b", 1), ("::1", 6667)))

    def test_other_text_describes_an_endpoint(self) -> None:
        """A list may mix descriptions and pairs of host and port."""
        self.assertEqual(
            parse_brokers(["tls:h:6668", "unix:/run/x", ("h", 1)]), ("tls:h:6668", "unix:/run/x", ("h", 1))
        )

    def test_a_host_may_be_called_as_a_kind_of_endpoint(self) -> None:
        """With a port alone behind it, it is a host; what may have been meant is said where nothing answers there."""
        self.assertEqual(parse_brokers("foo:443,tls:6668,unix:1"), (("foo", 443), ("tls", 6668), ("unix", 1)))
        self.assertIn("tls:HOST:6668", kind_hint(("tls", 6668)))
        for other in (("foo", 443), ("tls.example.org", 6668), "tls:h:6668"):
            self.assertEqual(kind_hint(other), "")

    def test_a_wrong_address_is_refused_with_the_forms(self) -> None:
        """The error says which forms are allowed, for text that is neither an address nor a description."""
        for wrong in ("", "host", "host:0", "host:99999", "host:", ":6667", "tcp:"):
            with self.subTest(wrong=wrong):
                error = self.assertRaises(ConfigurationError, parse_brokers, wrong)
                self.assertIn("allowed is", str(error))


class DiscoveredTests(SynchronousTestCase):
    """``discovered`` and ``name_of``."""

    def test_a_discovered_broker_has_the_same_kind_of_endpoint(self) -> None:
        """A client that came in over TLS goes on over TLS, with the same further settings."""
        self.assertEqual(discovered("b", 2, "tls:a:1:trustRoots=/ca"), "tls:b:2:trustRoots=/ca")
        self.assertEqual(discovered("::1", 2, "tcp:a:1"), "tcp:\\:\\:1:2")

    def test_other_endpoints_lead_to_plain_addresses(self) -> None:
        """From a pair or a UNIX socket nothing can be derived for another broker."""
        self.assertEqual(discovered("b", 2, ("a", 1)), ("b", 2))
        self.assertEqual(discovered("b", 2, "unix:/run/x"), ("b", 2))

    def test_an_address_is_shown_as_it_is_written(self) -> None:
        """A user who copies it from a log line can use it."""
        self.assertEqual([name_of(("h", 1)), name_of(("::1", 1)), name_of("unix:/x")], ["h:1", "[::1]:1", "unix:/x"])
