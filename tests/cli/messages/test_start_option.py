"""Tests of what ``--from`` may say."""

from __future__ import annotations

from datetime import UTC, datetime

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.start_option import parse_start
from logd.client.starting_positions import Position, Time


class ParseStartTests(SynchronousTestCase):
    """Ends, positions and times."""

    def test_ends(self) -> None:
        """The two ends are words."""
        self.assertEqual([parse_start("earliest"), parse_start("latest")], ["earliest", "latest"])

    def test_digits_are_positions(self) -> None:
        """Digits alone are never a time, however many."""
        self.assertEqual([parse_start("0"), parse_start("1320969600000")], [Position(0), Position(1320969600000)])
        self.assertEqual(parse_start("20111111"), Position(20111111))

    def test_times(self) -> None:
        """ISO 8601 with a zone, and seconds behind an @, are the same moment wherever they are read."""
        for text in (
            "2011-11-11T00:00:00Z",
            "2011-11-11T01:00:00+01:00",
            "@1320969600",
            "2011-11-11 00:00:00.000+00:00",
        ):
            self.assertEqual(parse_start(text), Time(1320969600000), text)
        self.assertEqual(parse_start("@1320969600.25"), Time(1320969600250))

    def test_local_time(self) -> None:
        """Without a zone it is the time of this machine's clock."""
        local = datetime.fromtimestamp(1320969600, UTC).astimezone().replace(tzinfo=None)
        self.assertEqual(parse_start(local.isoformat()), Time(1320969600000))

    def test_refused(self) -> None:
        """Anything else is named with what is allowed."""
        for text in ("", "-1", "newest", "12h", "@", "@x", "@-5", "@nan", "@1e300", "2011-13-01", "²"):
            with self.assertRaises(ValueError) as caught:
                parse_start(text)
            self.assertIn(f"{text!r} is not allowed; allowed is earliest, latest", str(caught.exception))
