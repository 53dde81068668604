"""Groups whose members do anything at any time: every request is answered once, and nothing is left at the end."""

from __future__ import annotations

import operator
from random import Random

from attrs import evolve

from logd.broker.kafka.groups.members import GroupState
from logd.broker.kafka.groups.roster import given_size
from tests.broker.kafka.groups.states import ASKED, GroupStateTestCase, Player
from tests.broker.kafka.groups.test_states import protocols

WALKS, STEPS = 60, 120


class RandomWalkTests(GroupStateTestCase):
    """Each walk has a seed of its own, which its failure names."""

    def test_walks(self) -> None:
        """Members that hold an assignment in one generation hold what its one leader gave to them."""
        for seed in range(WALKS):
            self.setUp()
            try:
                self.walk(Random(seed))
                self.tearDown()
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise

    def walk(self, random: Random) -> None:
        """Do many things, then let the members that are left come to rest."""
        self.owner.at_once = random.random() < 0.5
        players: list[Player] = []
        for _ in range(STEPS):
            self.step(random, players)
            self.check(players)
            self.check_fits(random)
        self.owner.at_once = True
        self.write()
        for _ in range(400):  # all that is not heard of any more ends with its session
            self.clock.advance(5.0)
        self.assertTrue(self.group.roster.is_unused)
        for player in players:
            self.assertEqual(len(player.joins), player.asked_times)

    def step(self, random: Random, players: list[Player]) -> None:
        """Do one thing."""
        choice = random.random()
        if choice < 0.15 or not players:
            players.append(
                self.player(
                    instance_id=random.choice([None, None, "s", "t"]),
                    in_two_steps=random.random() < 0.5,
                    session_timeout=random.choice([5.0, 10.0, 30.0]),
                    rebalance_timeout=random.choice([5.0, 20.0, 60.0]),
                )
            )
            players[-1].join()
        elif choice < 0.25:
            self.clock.advance(random.choice([0.0, 1.0, 4.0, 12.0]))
        elif choice < 0.35:
            self.write()
        else:
            player = random.choice(players)
            if choice < 0.6:
                if player.is_answered:
                    player.join(protocols=protocols(*random.sample(["range", "a", "b"], 2), "c"))
            elif choice < 0.8 and player.joins:
                members = self.group.roster.members
                player.sync({name: f"{self.group.generation} {name}".encode() for name in members})
            elif choice < 0.9 and player.joins:
                player.heartbeat()
            elif choice < 0.95 and player.joins:
                player.leave()
            elif not player.is_answered:
                player.lose_join()
                player.asked_times -= 1

    def check_fits(self, random: Random) -> None:
        """Check a request to join, of a member that may be there, against those of all other members."""
        roster = self.group.roster
        known = [member.asked for member in roster]
        asked = evolve(
            random.choice([*known, ASKED]),
            protocols=protocols(*random.sample(["range", "a", "b", "c", "d"], 2)),
            protocol_type=random.choice(["consumer", "consumer", "connect"]),
        )
        key = operator.attrgetter("member_id" if asked.instance_id is None else "instance_id")
        others = [each for each in known if key(each) != key(asked)]
        common = asked.names.intersection(*(each.names for each in others))
        alike = all(each.protocol_type == asked.protocol_type for each in others)
        self.assertEqual(roster.fits(asked), alike and bool(common))

    def write(self) -> None:
        """End the writing of a generation, if one is written."""
        if self.owner.writing:
            self.group.generation_written(self.owner.writing.pop())

    def check(self, players: list[Player]) -> None:
        """Check what holds at all times."""
        group, roster = self.group, self.group.roster
        given = sum(map(given_size, roster.given))
        self.assertEqual(self.memory.used, given + sum(member.size for member in roster))
        for player in players:
            self.assertLessEqual(len(player.joins), player.asked_times)
        if group.state in (GroupState.COMPLETING, GroupState.STABLE):
            self.assertIn(group.leader, roster.members)
            self.assertEqual([m for m in roster if m.answer_join is not None], [])
        if group.state is GroupState.STABLE:
            for member in roster:
                self.assertIsNone(member.answer_sync)
        for member in roster:
            self.assertTrue(member.timer is not None or member.is_waiting, member)
        self.assertEqual(set(roster.answers.joins.values()), {m for m in roster if m.answer_join is not None})
        self.assertEqual(set(roster.answers.syncs.values()), {m for m in roster if m.answer_sync is not None})
        names = [member.instance_id for member in roster if member.instance_id is not None]
        self.assertEqual(len(names), len(set(names)))
