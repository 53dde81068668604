"""Tests of connection strings, and of the settings that hold one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.zookeeper.connection_string import ConnectionString, Server, parse_connection_string
from logd.coord.zookeeper.settings import CoordinationSettings, CoordinationTls
from logd.errors import ConfigurationError

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=12).filter(lambda name: name.strip("."))
_SERVERS = st.builds(Server, st.one_of(_NAMES, st.just("::1"), st.just("fe80::2")), st.integers(1, 65535))
_CHROOTS = st.lists(st.text("abcxyz", min_size=1, max_size=5), max_size=3).map(
    lambda names: "".join("/" + n for n in names)
)


class ConnectionStringTests(SynchronousTestCase):
    """Servers and a chroot in one text, as ZooKeeper's own clients read it."""

    def test_servers_and_a_chroot_are_read(self) -> None:
        """Ports, spaces, IPv6 addresses and the chroot may be there or not."""
        for text, servers, chroot in (
            ("zoo", [Server("zoo", 2181)], ""),
            ("a:1, b:2 ,c", [Server("a", 1), Server("b", 2), Server("c", 2181)], ""),
            ("[::1]:99,[fe80::2]/x/y", [Server("::1", 99), Server("fe80::2", 2181)], "/x/y"),
            ("127.0.0.1:2181/", [Server("127.0.0.1", 2181)], ""),
            ("zoo/logd/", [Server("zoo", 2181)], "/logd"),
        ):
            read = parse_connection_string(text)
            self.assertEqual((list(read.servers), read.chroot), (servers, chroot))

    def test_a_wrong_string_is_refused_as_it_was_given(self) -> None:
        """The error shows the text, so that an operator finds it in a file."""
        for text in ("", ",", "a,,b", "a:", "a:x", "a:0", "a:70000", "::1", "[::1", "a b", "a//x", "a/../b", "/x"):
            with self.assertRaises(ConfigurationError) as caught:
                parse_connection_string(text)
            self.assertIn(repr(text), str(caught.exception))

    @given(st.lists(_SERVERS, min_size=1, max_size=4), _CHROOTS)
    def test_a_written_string_is_read_back(self, servers: list[Server], chroot: str) -> None:
        """The servers and the chroot are arbitrary."""
        made = ConnectionString(tuple(servers), chroot)
        self.assertEqual(parse_connection_string(str(made)), made)

    @given(_CHROOTS, st.sampled_from(["/", "/a", "/a/b"]))
    def test_a_path_goes_under_the_chroot_and_back(self, chroot: str, path: str) -> None:
        """A program knows only its own part of the tree."""
        address = ConnectionString((Server("a"),), chroot)
        self.assertTrue(address.full(path).startswith(chroot or "/"))
        self.assertFalse(address.full(path).endswith("/") and address.full(path) != "/")
        self.assertEqual(address.ours(address.full(path)), path)


class CoordinationSettingsTests(SynchronousTestCase):
    """The settings of a client."""

    def test_the_defaults_are_allowed(self) -> None:
        """Their hosts are a ZooKeeper on this machine."""
        self.assertEqual(CoordinationSettings().address.hosts, "127.0.0.1:2181")

    def test_a_wrong_value_is_refused_by_its_name(self) -> None:
        """A value of the wrong type is refused too."""
        for name, value in (
            ("session_timeout", 0),
            ("session_timeout", "10"),
            ("connect_timeout", -1),
            ("operation_timeout", True),
            ("in_flight", 0),
            ("data_bytes", 1.5),
            ("digests", ("nobody",)),
            ("digests", (":secret",)),
        ):
            values: dict[str, Any] = {name: value}
            with self.assertRaises(ConfigurationError) as caught:
                CoordinationSettings(**values)
            self.assertIn(name, str(caught.exception))

    def test_passwords_are_not_shown(self) -> None:
        """A settings object's text has none, nor has a refusal."""
        self.assertNotIn("secret", repr(CoordinationSettings(digests=("user:secret",))))
        with self.assertRaises(ConfigurationError) as caught:
            CoordinationSettings(digests=(":secret",))
        self.assertNotIn("secret", str(caught.exception))
        self.assertNotIn("secret", repr(CoordinationTls(key_password="secret")))

    def test_tls_settings_need_their_files(self) -> None:
        """A certificate needs its key, and a host name can only be checked together with the certificate."""
        for values in ({"authorities": "/no/such"}, {"certificate": __file__}, {"key": __file__}, {"verify": False}):
            with self.assertRaises(ConfigurationError):
                CoordinationTls(**values)
        CoordinationTls(authorities=__file__, certificate=__file__, key=__file__)
        CoordinationTls(verify=False, check_hostname=False)
