"""Tests of the kinds of values."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.config.kinds import Address, Endpoint, Folder, Switch, Whole, parse_address


class WholeTests(SynchronousTestCase):
    """Whole numbers."""

    def test_range(self) -> None:
        """Both ends are allowed and their neighbours outside are not."""
        kind = Whole(1, 10)
        self.assertEqual([value for value in (-1, 0, 1, 10, 11) if kind.accepts(value)], [1, 10])

    def test_none(self) -> None:
        """Minus one is allowed where it means something, and said to be."""
        kind = Whole(5, 10, "bytes", none="no limit")
        self.assertEqual([value for value in (-2, -1, 0, 5) if kind.accepts(value)], [-1, 5])
        self.assertEqual(kind.allowed, "a whole number of bytes from 5 to 10, or -1 for no limit")

    def test_types(self) -> None:
        """What is no whole number is not taken for one."""
        for value in (True, 1.0, "1", None):
            self.assertFalse(Whole(0, 10).accepts(value), value)

    def test_parse(self) -> None:
        """Text is read as decimal."""
        self.assertEqual(Whole(0, 100).parse("42"), 42)
        for text in ("", "4.2", "0x10", "ten"):
            with self.assertRaises(ValueError):
                Whole(0, 100).parse(text)


class SwitchTests(SynchronousTestCase):
    """True and false."""

    def test_parse(self) -> None:
        """The usual words are read, whatever their case."""
        self.assertEqual([Switch().parse(text) for text in ("true", "Yes", "ON", "1")], [True] * 4)
        self.assertEqual([Switch().parse(text) for text in ("false", "No", "off", "0")], [False] * 4)
        with self.assertRaises(ValueError):
            Switch().parse("perhaps")

    def test_types(self) -> None:
        """A number or a word in a file is no switch."""
        self.assertEqual([value for value in (True, False, 1, 0, "true") if Switch().accepts(value)], [True, False])


class AddressTests(SynchronousTestCase):
    """HOST:PORT."""

    def test_parse(self) -> None:
        """Names, IPv4 and bracketed IPv6 addresses are read."""
        self.assertEqual(parse_address("broker-1.example:6667"), ("broker-1.example", 6667))
        self.assertEqual(parse_address("127.0.0.1:1"), ("127.0.0.1", 1))
        self.assertEqual(parse_address("[::1]:65535"), ("::1", 65535))

    def test_refused(self) -> None:
        """What is no address, or no port that one could connect to, is refused."""
        for text in ("", "host", "host:", ":6667", "host:0", "host:65536", "::1:6667", "tcp://host:1", "host:1\n"):
            self.assertFalse(Address().accepts(text), text)
            with self.assertRaises(ValueError):
                parse_address(text)
        self.assertTrue(Address().accepts("host:65535"))


class TextTests(SynchronousTestCase):
    """Endpoints and folders."""

    def test_endpoint(self) -> None:
        """An endpoint begins with its kind; a bare port is a common mistake."""
        kind = Endpoint("tcp:1")
        self.assertTrue(kind.accepts("ssl:6667:privateKey=key.pem"))
        for value in ("6667", "127.0.0.1:6667", "tcp", "tcp:", 6667):
            self.assertFalse(kind.accepts(value), value)
        self.assertIn("tcp:1", kind.allowed)

    def test_folder(self) -> None:
        """A folder is any path that there can be."""
        self.assertEqual([value for value in ("/a", "a", "", "a\0b", 1) if Folder().accepts(value)], ["/a", "a"])
