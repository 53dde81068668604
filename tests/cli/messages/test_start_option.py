"""Tests of logd.cli.messages.start_option: the values of ``--from``."""

from __future__ import annotations

from datetime import UTC, datetime

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.start_option import parse_start
from logd.client.starting_positions import Position, Time


class ParseStartTests(SynchronousTestCase):
    """``parse_start``."""

    def test_the_two_ends_are_words(self) -> None:
        """The clients' setting takes the same words."""
        self.assertEqual([parse_start("earliest"), parse_start("latest")], ["earliest", "latest"])

    def test_digits_alone_are_a_position(self) -> None:
        """A position may look like a date or like seconds since 1970."""
        self.assertEqual([parse_start("0"), parse_start("1320969600000")], [Position(0), Position(1320969600000)])
        self.assertEqual(parse_start("20111111"), Position(20111111))

    def test_a_time_is_the_same_moment_everywhere(self) -> None:
        """ISO 8601 with a zone and seconds behind an @ do not depend on the machine."""
        for text in (
            "2011-11-11T00:00:00Z",
            "2011-11-11T01:00:00+01:00",
            "@1320969600",
            "2011-11-11 00:00:00.000+00:00",
        ):
            self.assertEqual(parse_start(text), Time(1320969600000), text)
        self.assertEqual(parse_start("@1320969600.25"), Time(1320969600250))

    def test_a_time_without_a_zone_is_local(self) -> None:
        """Users write times as their machine's clock shows them."""
        local = datetime.fromtimestamp(1320969600, UTC).astimezone().replace(tzinfo=None)
        self.assertEqual(parse_start(local.isoformat()), Time(1320969600000))

    def test_another_text_is_refused_with_the_forms(self) -> None:
        """The error quotes it and says what is allowed."""
        for text in ("", "-1", "newest", "12h", "@", "@x", "@-5", "@nan", "@1e300", "2011-13-01", "²"):
            with self.assertRaises(ValueError) as caught:
                parse_start(text)
            self.assertIn(f"{text!r} is not allowed; allowed is earliest, latest", str(caught.exception))
