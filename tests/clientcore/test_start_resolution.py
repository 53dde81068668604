"""Tests of logd.clientcore.start_resolution."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.clientcore.start_resolution import EARLIEST, LATEST, position_at_time, position_of
from logd.protocol.requests.describe_log import DescribeLogResponse


class StartingPositionTests(SynchronousTestCase):
    """Positions in a log from 100 to 200, of which 180 is visible."""

    def log(self, time_position: int = -1) -> DescribeLogResponse:
        """Return the log's description, with the position of a time."""
        return DescribeLogResponse(0, 100, 200, 180, time_position=time_position)

    def test_names_of_ends_become_positions(self) -> None:
        """ "latest" is the visible end, and numbers are taken as they are."""
        found = [position_of(position, self.log()) for position in (EARLIEST, LATEST, 0, 150, 999)]
        self.assertEqual(found, [100, 180, 0, 150, 999])

    def test_a_time_becomes_the_position_the_broker_names(self) -> None:
        """A time after all visible messages becomes the visible end."""
        self.assertEqual([position_at_time(self.log(at)) for at in (-1, 120, 190)], [180, 120, 180])
