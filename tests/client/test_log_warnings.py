"""Tests of the lines of the log that commands and scripts show: what keeps a group from messages is among them."""

from __future__ import annotations

from logd.client.log_warnings import tell_warnings
from logd.coord import paths
from tests.client.groups import Application, ClientGroupCase


class GroupWarningTests(ClientGroupCase):
    """A group, and nodes in the tree that cannot be read."""

    def setUp(self) -> None:
        """Collect the lines."""
        super().setUp()
        self.lines: list[str] = []
        self.addCleanup(tell_warnings(self.lines.append))

    def told(self) -> str:
        """Have one application consume all that it can, and return the one line that came of it."""
        app = Application(self).read()
        self.run_for(2.0)
        self.assertNotEqual(app.got, [])
        (line,) = self.lines
        return line

    def test_position(self) -> None:
        """A partition that is not consumed, since its position cannot be read, is named with the remedy."""
        self.eye.create(paths.group_offset("g", "t", 2), b"9" * 30, makepath=True)
        self.run_for(0.1)
        line = self.told()
        self.assertIn("topic 't', partition 2 is not consumed, since its position cannot be read", line)
        self.assertIn("logd groups reset", line)

    def test_member(self) -> None:
        """So is a member whose entry cannot be read."""
        self.eye.create(f"{paths.group_consumers('g')}/odd", b"what?", ephemeral=True, makepath=True)
        self.run_for(0.1)
        self.assertIn("ignoring consumer odd of group g, whose entry", self.told())

    def test_nothing_wrong(self) -> None:
        """Where all can be read nothing is said."""
        Application(self).read()
        self.run_for(2.0)
        self.assertEqual(self.lines, [])
