"""Tests of logd.broker.replication.control.leader_moves: successors are named, and leaders that stay are replaced."""

from __future__ import annotations

from attrs import evolve

from logd.coord.registries.operator_requests import Reassignment, change_reassignment, set_draining
from logd.leadership import NO_LEADER
from tests.broker.replication.control.test_controller import BALANCE, TOPIC, ControllerTestCase
from tests.coord.registries.rig import SESSION


class LeaderMovesTests(ControllerTestCase):
    """Preferred leaders come back, brokers are drained."""

    def test_a_preferred_leader_comes_back_later(self) -> None:
        """Not before it has been in sync for a while."""
        self.write(evolve(self.state(2, (1, 2, 3)), leader_epoch=3))
        self.pass_time(BALANCE - 2)
        self.assertEqual(self.stored().leader, 2)
        self.pass_time(4)
        self.assertEqual((self.stored().leader, self.stored().leader_epoch), (1, 4))

    def test_a_leader_that_does_not_hand_over_is_replaced(self) -> None:
        """It is named its successor first, and has some seconds."""
        self.members[1].deaf = True
        self.assertTrue(self.outcome(set_draining(self.tree, 1, True)))
        self.pass_time(1.5)
        self.assertEqual((self.stored().leader, self.stored().successor), (1, 2))
        self.pass_time(4)
        state = self.stored()
        self.assertEqual((state.leader, state.leader_epoch, state.successor), (2, 1, NO_LEADER))

    def test_a_successor_that_is_out_of_sync_is_named_no_more(self) -> None:
        """The leader goes on; later another one is named."""
        self.members[1].deaf = True
        self.write(evolve(self.state(1, (1, 3)), successor=2))
        self.pass_time(2)
        self.assertEqual((self.stored().leader, self.stored().successor), (1, NO_LEADER))

    def test_a_new_controller_goes_on_with_what_the_former_one_began(self) -> None:
        """It has not named the successor itself, and finds it in the state."""
        for member in self.members.values():
            member.deaf = True
        self.write(evolve(self.state(3, (1, 2, 3)), successor=2))
        self.kill(1)
        self.pass_time(SESSION + 5)
        self.assertEqual((self.stored().leader, self.stored().leader_epoch), (2, 1))

    def test_a_draining_broker_leads_nothing(self) -> None:
        """It leads again after it is undrained."""
        self.assertTrue(self.outcome(set_draining(self.tree, 1, True)))
        self.assertFalse(self.outcome(set_draining(self.tree, 1, True)))
        self.pass_time(2)
        self.assertEqual((self.stored(0).leader, self.stored(1).leader), (2, 2))
        self.assertTrue(self.outcome(set_draining(self.tree, 1, False)))
        self.pass_time(BALANCE + 3)
        self.assertEqual(self.stored(0).leader, 1)

    def test_a_leader_that_stores_the_partition_no_more_hands_over_first(self) -> None:
        """Its replica stays until another broker leads, and no longer if it does not hand over."""
        for deaf, epoch in ((True, 0), (False, 0)):
            self.members[1].deaf = deaf
            self.write(evolve(self.state(1, (1, 2, 3)), leader_epoch=epoch))
            self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("uuid", {0: (3, 2)})))
            self.pass_time(1.5)
            if deaf:
                self.assertEqual((self.stored().leader, self.stored().successor), (1, 3))
                self.assertEqual(self.entry().partitions[0], (1, 2, 3))
            self.pass_time(5)
            self.assertEqual((self.entry().partitions[0], self.stored().leader), ((3, 2), 3))
            self.assertEqual(self.stored().leader_epoch, epoch + 1)
            self.outcome(change_reassignment(self.tree, TOPIC, lambda _: Reassignment("uuid", {0: (1, 2, 3)})))
            self.pass_time(2)
            self.assertEqual(self.entry().partitions[0], (3, 2, 1))
