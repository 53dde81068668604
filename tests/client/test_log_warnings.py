"""Tests of logd.client.log_warnings: what keeps a group from messages is among the lines that commands show."""

from __future__ import annotations

from logd.client.log_warnings import tell_warnings
from logd.coord import paths
from tests.client.groups import Application, ClientGroupTestCase


class GroupWarningTests(ClientGroupTestCase):
    """A group, and nodes in the tree that cannot be read."""

    def setUp(self) -> None:
        """Collect the lines."""
        super().setUp()
        self.lines: list[str] = []
        self.addCleanup(tell_warnings(self.lines.append))

    def told(self) -> str:
        """Have one application consume all that it can, and return the only line that was shown."""
        app = Application(self).read()
        self.run_for(2.0)
        self.assertNotEqual(app.got, [])
        (line,) = self.lines
        return line

    def test_a_partition_with_an_unreadable_position_is_named(self) -> None:
        """The line says that the partition is not consumed, and names the command that mends it."""
        self.eye.create(paths.group_offset("g", "t", 2), b"9" * 30, makepath=True)
        self.run_for(0.1)
        line = self.told()
        self.assertIn("topic 't', partition 2 is not consumed, since its position cannot be read", line)
        self.assertIn("logd groups reset", line)

    def test_a_member_with_an_unreadable_entry_is_named(self) -> None:
        """A consumer ignores such a member, so the group shares out its partitions without it."""
        self.eye.create(f"{paths.group_consumers('g')}/odd", b"what?", ephemeral=True, makepath=True)
        self.run_for(0.1)
        self.assertIn("ignoring consumer odd of group g, whose entry", self.told())

    def test_a_group_in_order_shows_no_line(self) -> None:
        """Warnings that are always there would not be read."""
        Application(self).read()
        self.run_for(2.0)
        self.assertEqual(self.lines, [])
