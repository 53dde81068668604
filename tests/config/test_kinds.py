"""Tests of logd.config.kinds: the kinds of values that settings have."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.config.kinds import Address, Endpoint, Folder, OneOf, Switch, Whole, parse_address


class WholeTests(SynchronousTestCase):
    """Whole numbers."""

    def test_both_ends_of_a_range_are_allowed(self) -> None:
        """Their neighbours outside are not."""
        kind = Whole(1, 10)
        self.assertEqual([value for value in (-1, 0, 1, 10, 11) if kind.accepts(value)], [1, 10])

    def test_minus_one_is_allowed_where_it_means_something(self) -> None:
        """The text of what is allowed gives the meaning."""
        kind = Whole(5, 10, "bytes", none="no limit")
        self.assertEqual([value for value in (-2, -1, 0, 5) if kind.accepts(value)], [-1, 5])
        self.assertEqual(kind.allowed, "a whole number of bytes from 5 to 10, or -1 for no limit")

    def test_values_of_other_types_are_no_whole_numbers(self) -> None:
        """TOML tells them apart, and ``True`` would count as 1 in Python."""
        for value in (True, 1.0, "1", None):
            self.assertFalse(Whole(0, 10).accepts(value), value)

    def test_text_is_read_as_decimal(self) -> None:
        """Other notations are refused rather than guessed."""
        self.assertEqual([Whole(0, 100).parse(text) for text in ("42", "-1", "007")], [42, -1, 7])
        for text in ("", "4.2", "0x10", "ten", " 42", "42\n", "1_0", "+1", "--1", "\u0663", "\u00b2", "9" * 5000):
            with self.assertRaises(ValueError):
                Whole(0, 100).parse(text)


class SwitchTests(SynchronousTestCase):
    """Switches, which are true or false."""

    def test_the_usual_words_are_read(self) -> None:
        """Their case does not matter, and another word is refused."""
        self.assertEqual([Switch().parse(text) for text in ("true", "Yes", "ON", "1")], [True] * 4)
        self.assertEqual([Switch().parse(text) for text in ("false", "No", "off", "0")], [False] * 4)
        with self.assertRaises(ValueError):
            Switch().parse("perhaps")

    def test_a_number_or_word_is_no_switch(self) -> None:
        """A file has true and false of its own; words are for command lines and variables."""
        self.assertEqual([value for value in (True, False, 1, 0, "true") if Switch().accepts(value)], [True, False])


class AddressTests(SynchronousTestCase):
    """Addresses of the form HOST:PORT."""

    def test_names_and_ip_addresses_are_read(self) -> None:
        """IPv6 addresses are in brackets."""
        self.assertEqual(parse_address("broker-1.example:6667"), ("broker-1.example", 6667))
        self.assertEqual(parse_address("127.0.0.1:1"), ("127.0.0.1", 1))
        self.assertEqual(parse_address("[::1]:65535"), ("::1", 65535))

    def test_an_unusable_address_is_refused(self) -> None:
        """Text may be no address, or have a port to which one cannot connect."""
        for text in ("", "host", "host:", ":6667", "host:0", "host:65536", "::1:6667", "tcp://host:1", "host:1\n"):
            self.assertFalse(Address().accepts(text), text)
            with self.assertRaises(ValueError):
                parse_address(text)
        self.assertTrue(Address().accepts("host:65535"))


class TextTests(SynchronousTestCase):
    """Endpoints and folders."""

    def test_an_endpoint_begins_with_its_kind(self) -> None:
        """A bare port is a common mistake, so the error shows an example."""
        kind = Endpoint("tcp:1")
        self.assertTrue(kind.accepts("ssl:6667:privateKey=key.pem"))
        for value in ("6667", "127.0.0.1:6667", "tcp", "tcp:", 6667):
            self.assertFalse(kind.accepts(value), value)
        self.assertIn("tcp:1", kind.allowed)

    def test_a_folder_is_any_possible_path(self) -> None:
        """A folder need not exist yet; only the empty path and a NUL are impossible."""
        self.assertEqual([value for value in ("/a", "a", "", "a\0b", 1) if Folder().accepts(value)], ["/a", "a"])


class OneOfTests(SynchronousTestCase):
    """Kinds of a few words."""

    def test_only_its_words_are_taken(self) -> None:
        """As text, also where they look like a number; the refusal names them."""
        kind = OneOf(("any", "0.7"))
        self.assertEqual(
            [kind.accepts(value) for value in ("any", "0.7", "0.70", 0.7, None)], [True, True] + 3 * [False]
        )
        self.assertEqual((kind.parse("0.7"), kind.allowed), ("0.7", "any or 0.7"))
