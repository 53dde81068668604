"""Static members that start again before their first request to join was answered."""

from __future__ import annotations

from tests.broker.kafka.groups.states import GroupStateTestCase
from tests.broker.kafka.groups.test_states import protocols


class NewStaticMemberTests(GroupStateTestCase):
    """A group of two, whose members need no heartbeats for long, and a static member with a short session timeout."""

    def setUp(self) -> None:
        """Let the static member ask to join, which the group waits for the others with."""
        super().setUp()
        self.first, self.slow = self.players({"session_timeout": 90.0}, {"session_timeout": 90.0})
        self.former, self.again = [
            self.player(instance_id="s", in_two_steps=True, session_timeout=seconds) for seconds in (70.0, 10.0)
        ]
        self.former.join()

    def test_it_waits_as_a_new_member_does(self) -> None:
        """Without heartbeats, for as long as the others take."""
        self.again.join()
        self.first.join()
        self.clock.advance(30.0)
        self.assertEqual((self.former.answer.error, self.again.joins), (82, []))
        self.slow.join()
        self.assertEqual((self.again.answer.error, self.again.answer.generation), (0, 8))

    def test_it_is_new_no_more_behind_a_generation_without_it(self) -> None:
        """It has its place in that by its second request, and waits for the next one as others do."""
        self.former.lose_join()
        self.first.join()
        self.slow.join()
        self.clock.advance(60.0)
        self.first.sync()
        self.slow.sync()
        self.again.join()
        self.again.sync()
        self.assertEqual((self.again.answer.error, self.again.answer.generation), (0, 8))
        self.slow.join(protocols=protocols("range", "new"))
        self.again.join()
        self.clock.advance(30.0)
        self.assertEqual(len(self.again.joins), 1)
        self.first.join()
        self.assertEqual((self.again.answer.error, self.again.answer.generation), (0, 9))
