"""The assignors that the members of a group know."""

from __future__ import annotations

from logd.broker.kafka.groups.members import GroupProtocol
from tests.broker.kafka.groups.states import GroupStateTestCase


class AssignorTests(GroupStateTestCase):
    """Members that join an empty group."""

    def test_hundreds_of_assignors(self) -> None:
        """No client has so many, and those of all members are compared at each request to join."""
        for count, error in ((101, 23), (100, 0)):
            player = self.player(protocols=tuple(GroupProtocol(f"a{number}", b"") for number in range(count)))
            player.join()
            self.begin()
            self.assertEqual(player.answer.error, error)
