"""Connection strings, and the settings that hold one."""

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
    """What is read, and what is refused."""

    def test_read(self) -> None:
        """Servers with and without ports, spaces, IPv6 addresses, a chroot or none."""
        for text, servers, chroot in (
            ("zoo", [Server("zoo", 2181)], ""),
            ("a:1, b:2 ,c", [Server("a", 1), Server("b", 2), Server("c", 2181)], ""),
            ("[::1]:99,[fe80::2]/x/y", [Server("::1", 99), Server("fe80::2", 2181)], "/x/y"),
            ("127.0.0.1:2181/", [Server("127.0.0.1", 2181)], ""),
            ("zoo/logd/", [Server("zoo", 2181)], "/logd"),
        ):
            read = parse_connection_string(text)
            self.assertEqual((list(read.servers), read.chroot), (servers, chroot))

    def test_refused(self) -> None:
        """Each refusal shows what was given."""
        for text in ("", ",", "a,,b", "a:", "a:x", "a:0", "a:70000", "::1", "[::1", "a b", "a//x", "a/../b", "/x"):
            with self.assertRaises(ConfigurationError) as caught:
                parse_connection_string(text)
            self.assertIn(repr(text), str(caught.exception))

    @given(st.lists(_SERVERS, min_size=1, max_size=4), _CHROOTS)
    def test_written_and_read(self, servers: list[Server], chroot: str) -> None:
        """What is written can be read."""
        made = ConnectionString(tuple(servers), chroot)
        self.assertEqual(parse_connection_string(str(made)), made)

    @given(_CHROOTS, st.sampled_from(["/", "/a", "/a/b"]))
    def test_paths(self, chroot: str, path: str) -> None:
        """A path is under the chroot, and comes back without it."""
        address = ConnectionString((Server("a"),), chroot)
        self.assertTrue(address.full(path).startswith(chroot or "/"))
        self.assertFalse(address.full(path).endswith("/") and address.full(path) != "/")
        self.assertEqual(address.ours(address.full(path)), path)


class SettingsTests(SynchronousTestCase):
    """The settings of a client."""

    def test_defaults(self) -> None:
        """They are allowed, and read the hosts."""
        self.assertEqual(CoordinationSettings().address.hosts, "127.0.0.1:2181")

    def test_refused(self) -> None:
        """A value that is not allowed is refused by its name."""
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
        """Neither in a settings object's text nor in a refusal."""
        self.assertNotIn("secret", repr(CoordinationSettings(digests=("user:secret",))))
        with self.assertRaises(ConfigurationError) as caught:
            CoordinationSettings(digests=(":secret",))
        self.assertNotIn("secret", str(caught.exception))
        self.assertNotIn("secret", repr(CoordinationTls(key_password="secret")))

    def test_tls(self) -> None:
        """Files have to be there, a certificate needs its key, a name that is checked needs a check."""
        for values in ({"authorities": "/no/such"}, {"certificate": __file__}, {"key": __file__}, {"verify": False}):
            with self.assertRaises(ConfigurationError):
                CoordinationTls(**values)
        CoordinationTls(authorities=__file__, certificate=__file__, key=__file__)
        CoordinationTls(verify=False, check_hostname=False)
