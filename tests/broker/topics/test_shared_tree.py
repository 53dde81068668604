"""Tests of several brokers over one tree: creation, deletion, restarts, and times without the tree."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from logd import __version__
from logd.broker.security.requester import Requester
from logd.coord import paths
from logd.coord.registries.topics import encode_entry
from logd.errors import CoordinationUnavailable, InvalidTopic, TopicExists, UnknownTopic
from logd.log.partition import PartitionLog
from logd.topic import TopicEntry
from tests.broker.members import SESSION, Member, MembersTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")


def log_of(member: Member, topic: str, partition: int) -> PartitionLog:
    """Return the log of a partition that has one."""
    log = member.store.log(topic, partition)
    assert log is not None
    return log


class CreationTests(MembersTestCase):
    """Topics that are made over two brokers."""

    def setUp(self) -> None:
        """Start both brokers."""
        super().setUp()
        self.one, self.two = self.member(1), self.member(2)

    def test_brokers_know_each_other(self) -> None:
        """Each is registered with its address and instance."""
        self.assertEqual(self.nodes(paths.BROKER_IDS), ["1", "2"])
        value = json.loads(self.outcome(self.reader.get(paths.broker(1)))[0])
        self.assertEqual((value.pop("instance"), value.pop("version")), (self.one.store.instance, __version__))
        self.assertEqual(value, {"host": "broker1.example", "port": 7001, "topics": {}})
        live = {1: ("broker1.example", 7001), 2: ("broker2.example", 7002)}
        self.assertEqual([member.broker.brokers() for member in (self.one, self.two)], [live] * 2)

    def test_partitions_are_spread_over_brokers(self) -> None:
        """Each makes the logs of its share; the next topic begins at the other broker."""
        entry = self.create(self.one, "t", 5)
        shares = {number: sum(brokers == (number,) for brokers in entry.partitions.values()) for number in (1, 2)}
        self.assertEqual(sorted(shares.values()), [2, 3])
        self.settle()
        for member in (self.one, self.two):
            expected = [number for number, brokers in entry.partitions.items() if brokers == (member.id,)]
            self.assertEqual(member.partitions("t"), expected)
            self.assertEqual(member.broker.topics.get("t"), entry)
        other = self.create(self.one, "u", 5)
        self.assertNotEqual(other.partitions[0], entry.partitions[0])

    def test_the_registry_has_the_stored_partitions(self) -> None:
        """All changes of a short while are written at once."""
        self.create(self.one, "t", 2)
        self.pass_time(2.5)
        found = [json.loads(self.outcome(self.reader.get(paths.broker(number)))[0])["topics"] for number in (1, 2)]
        self.assertEqual(sorted(found, key=str), [{"t": [0]}, {"t": [1]}])

    def test_one_of_two_creations_wins(self) -> None:
        """Each broker serves the winner's topic, with its number of partitions."""
        first = self.one.broker.administration.create("t", 2, {})
        second = self.two.broker.administration.create("t", 4, {})
        entry = self.outcome(first)
        self.assertIsInstance(self.error(second), TopicExists)
        self.assertEqual(self.two.broker.topics.get("t"), entry)
        self.assertEqual(len(self.one.partitions("t") + self.two.partitions("t")), 2)

    def test_the_losing_broker_has_the_topic(self) -> None:
        """The loser makes its logs before it answers, so that its client can use them at once."""
        first = self.one.broker.administration.create("t", 2, {})
        self.two.client.link.delay = lambda: 0.05  # its watch comes late
        while not first.called:
            self.clock.advance(0)
            self.one.threads.settle()
        second = self.two.broker.administration.create("t", 2, {})
        partitions: list[int] = []

        def answered(result: object) -> object:
            partitions.extend(self.two.partitions("t"))
            return result

        second.addBoth(answered)
        self.pass_time(2)
        self.assertIsInstance(self.error(second), TopicExists)
        self.assertEqual(len(partitions), 1)

    def test_a_topic_used_first_elsewhere_exists_here(self) -> None:
        """Clients of either broker may be the first."""
        self.outcome(self.one.broker.create_on_demand(Requester(), "t"))
        self.outcome(self.two.broker.create_on_demand(Requester(), "t"))
        self.assertEqual(self.one.broker.topics.get("t"), self.two.broker.topics.get("t"))

    def test_topics_max_counts_all_brokers(self) -> None:
        """A broker may store few partitions itself and still refuse."""
        three = self.member(3, topics_max=6)
        self.create(self.one, "t", 5)
        self.settle()
        error = self.error(three.broker.administration.create("u", 2, {}))
        self.assertEqual((type(error), "5 are in use" in str(error)), (InvalidTopic, True))

    def test_creations_share_writes(self) -> None:
        """40 of them need few writes of topics.json, and each stored here is answered after its own."""
        making = [self.one.broker.administration.create(f"t{n}", 1, {}) for n in range(40)]
        while not self.one.threads.works:
            self.clock.advance(0)
        self.assertNotIn((1,), [self.successResultOf(each).partitions[0] for each in making if each.called])
        writes = 0
        while not all(each.called for each in making):
            self.clock.advance(0)
            if self.one.threads.works:
                writes += 1
                self.one.threads.settle()
            on_disk = json.loads(bytes(self.one.files._inode("/data/topics.json").data))
            made = [f"t{n}" for n, each in enumerate(making) if each.called]
            mine = [name for name in made if self.one.broker.topics.get(name).partitions[0] == (1,)]  # type: ignore[union-attr]
            self.assertLessEqual(set(mine), set(on_disk))
        self.assertLess(writes, 10)
        self.settle()
        self.assertEqual(len(self.two.broker.topics.names()), 40)

    def test_creations_under_way_count_too(self) -> None:
        """One that fails counts no more."""
        three = self.member(3, topics_max=6)
        making = [three.broker.administration.create(f"t{n}", 4, {}) for n in range(2)]
        self.assertEqual(len(self.outcome(making[0]).partitions), 4)
        self.assertIsInstance(self.error(making[1]), InvalidTopic)
        self.create(three, "u", 2)

    def test_settings_hold_on_every_broker(self) -> None:
        """Settings are part of the topic's entry, not of the broker that was asked."""
        self.outcome(self.one.broker.administration.create("t", 2, {"retention.ms": 7}))
        self.settle()
        for member in (self.one, self.two):
            (number,) = member.partitions("t")
            self.assertEqual(log_of(member, "t", number).settings.retention_ms, 7)


class DeletionTests(MembersTestCase):
    """A topic that is deleted on two brokers."""

    def setUp(self) -> None:
        """Make a topic that both brokers store, and commit positions of a group in it."""
        super().setUp()
        self.one, self.two = self.member(1), self.member(2)
        self.entry = self.create(self.one, "t", 2)
        self.settle()
        for number in (0, 1):
            self.outcome(self.reader.create(paths.group_offset("g", "t", number), b"5", makepath=True))
        self.outcome(self.reader.create(paths.group_offset("g", "other", 0), b"6", makepath=True))

    def test_every_broker_removes_its_logs(self) -> None:
        """The groups' positions go with them, and no note stays in the tree."""
        self.outcome(self.one.broker.administration.delete("t"))
        self.settle()
        for member in self.members:
            self.assertEqual((member.partitions("t"), member.broker.topics.names()), ([], []))
            self.assertEqual([name for name in member.files.list("/data") if name.startswith("t-")], [])
        self.assertEqual(self.nodes(f"{paths.group('g')}/offsets"), ["other"])
        self.assertEqual((self.nodes(paths.DELETED_TOPICS), self.nodes(paths.BROKER_TOPICS)), ([], []))
        self.assertIsInstance(self.error(self.two.broker.administration.delete("t")), UnknownTopic)

    def test_a_broker_deletes_what_it_missed(self) -> None:
        """The tree keeps a note of the deletion until every broker has removed its logs."""
        self.two.kill()
        self.outcome(self.one.broker.administration.delete("t"))
        self.assertEqual(self.nodes(paths.DELETED_TOPICS), [self.entry.uuid])
        self.two.start()
        self.settle()
        self.assertEqual((self.two.partitions("t"), self.two.broker.topics.names()), ([], []))
        self.assertEqual((self.nodes(paths.DELETED_TOPICS), self.nodes(paths.BROKER_TOPICS)), ([], []))

    def test_a_new_topic_replaces_the_old_one(self) -> None:
        """A broker that was down gets an empty log under the new uuid."""
        (number,) = self.two.partitions("t")
        log_of(self.two, "t", number).append([HELLO], 1, -1)
        self.two.kill()
        self.outcome(self.one.broker.administration.delete("t"))
        again = TopicEntry("another", {0: (2,), 1: (1,)})
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(again)))
        self.two.start()
        self.settle()
        self.assertEqual(self.two.partitions("t"), [0])
        self.assertEqual((log_of(self.two, "t", 0).end, self.two.broker.topics.get("t")), (0, again))
        self.assertEqual(self.two.membership.reconciler.conflicts, {})

    def test_a_name_can_be_used_again_at_once(self) -> None:
        """One broker deletes and creates faster than the other looks; both end with the new topic."""
        for member in self.members:
            (number,) = member.partitions("t")
            log_of(member, "t", number).append([HELLO], 1, -1)
        deleting = self.one.broker.administration.delete("t")
        creating = self.one.broker.administration.create("t", 2, {})
        self.outcome(deleting)
        entry = self.outcome(creating)
        self.settle()
        for member in self.members:
            self.assertEqual(member.broker.topics.get("t"), entry)
            self.assertEqual([log_of(member, "t", number).end for number in member.partitions("t")], [0])

    def test_a_failed_removal_is_repeated(self) -> None:
        """The topic must not come back meanwhile, nor at the next start."""
        self.two.files.errors["rename"] = [OSError(5, "Input/output error")]
        self.outcome(self.one.broker.administration.delete("t"))
        self.settle()
        self.assertEqual(len([name for name in self.two.files.list("/data") if name.startswith("t-")]), 1)
        self.assertEqual(self.two.broker.topics.names(), [])
        self.pass_time(6)
        self.assertEqual([name for name in self.two.files.list("/data") if name.startswith("t-")], [])
        self.assertEqual((self.nodes(paths.DELETED_TOPICS), self.nodes(paths.BROKER_TOPICS)), ([], []))
        self.two.kill()
        self.two.start()
        self.settle()
        self.assertEqual((self.two.partitions("t"), self.nodes(paths.BROKER_TOPICS)), ([], []))

    def test_a_missing_node_deletes_nothing(self) -> None:
        """Without a note of a deletion the topic moves into the tree again."""
        (number,) = self.two.partitions("t")
        log_of(self.two, "t", number).append([HELLO], 1, -1)
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.assertEqual(self.nodes(paths.BROKER_TOPICS), ["t"])
        self.assertEqual(self.two.broker.topics.get("t"), self.entry)
        self.assertEqual(log_of(self.two, "t", number).end, len(HELLO))


class StartTests(MembersTestCase):
    """A start with topics on the disk, over a tree that may have others."""

    def test_a_bad_note_is_passed_over(self) -> None:
        """The node stays in the tree, and the broker joins the others."""
        for number, data in enumerate((b"", b"{}", b"[1]", b'{"brokers": "1"}')):
            self.outcome(self.reader.create(f"{paths.DELETED_TOPICS}/by-hand-{number}", data, makepath=True))
        member = self.member(1)
        self.create(member, "t", 1)
        self.assertEqual((member.partitions("t"), len(self.nodes(paths.DELETED_TOPICS))), ([0], 4))

    def stored(self, uuid: str, *partitions: int, broker: int = 1, data: bytes = HELLO) -> Member:
        """Return a stopped broker that stores topic "t", which is not in the tree any more."""
        member = self.member(broker)
        entry = TopicEntry(uuid, dict.fromkeys(partitions, (broker,)))
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(entry), makepath=True))
        self.settle()
        for number in partitions if data else ():
            log_of(member, "t", number).append([data], 1, -1)
        self.outcome(member.stop())
        self.outcome(self.reader.delete(paths.topic("t")))
        return member

    def test_stored_topics_move_into_the_tree(self) -> None:
        """The topics keep their uuid, and are served."""
        member = self.stored("mine", 0, 1)
        member.start()
        self.settle()
        data, _ = self.outcome(self.reader.get(paths.topic("t")))
        self.assertEqual(TopicEntry.from_json(json.loads(data)), TopicEntry("mine", {0: (1,), 1: (1,)}))
        self.assertEqual(log_of(member, "t", 1).end, len(HELLO))
        self.assertTrue(member.broker.ready)

    def test_a_topic_under_another_uuid_is_a_conflict(self) -> None:
        """The conflict names both; the logs stored here are not served, and nothing of them is changed."""
        member = self.stored("mine", 0, 1)
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(TopicEntry("theirs", {0: (1,)}))))
        member.start()
        self.settle()
        conflict = member.membership.reconciler.conflicts["t"]
        for word in ("'t'", "broker 1", "mine", "theirs", "move their folders away"):
            self.assertIn(word, conflict)
        self.assertIsNotNone(log_of(member, "t", 0).offline)
        self.assertEqual((log_of(member, "t", 0).end, log_of(member, "t", 1).end), (len(HELLO), len(HELLO)))
        self.assertEqual(member.broker.health()["status"], "degraded")
        self.assertIn("t", json.loads(bytes(member.files._inode("/data/topics.json").data)))
        self.assertTrue(member.broker.ready)

    def test_empty_logs_make_way(self) -> None:
        """The logs never had a message, so nothing is lost."""
        member = self.stored("mine", 0, 1, data=b"")
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(TopicEntry("theirs", {0: (1,)}))))
        member.start()
        self.settle()
        self.assertEqual((member.partitions("t"), member.membership.reconciler.conflicts), ([0], {}))

    def test_a_log_listed_elsewhere_is_not_served(self) -> None:
        """The conflict names both brokers; the other partition is served."""
        member = self.stored("mine", 0, 1)
        entry = TopicEntry("mine", {0: (1,), 1: (2,)})
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(entry)))
        member.start()
        self.settle()
        conflict = member.membership.reconciler.conflicts["t"]
        for word in ("[1]", "'t'", "broker 1", "1: [2]"):
            self.assertIn(word, conflict)
        self.assertIsNone(log_of(member, "t", 0).offline)
        self.assertIsNotNone(log_of(member, "t", 1).offline)
        self.assertEqual(log_of(member, "t", 1).end, len(HELLO))

    def test_a_taken_id_keeps_a_broker_out(self) -> None:
        """The broker names both instances, moves nothing into the tree, and waits until the id is free."""
        member = self.stored("mine", 0)
        other = self.member(1)
        member.start()
        self.settle()
        problem = member.broker.health()["problem"]
        for word in ("broker 1 is still reg", member.store.instance, other.store.instance, "broker1.example:7001"):
            self.assertIn(word, problem)
        self.assertEqual(self.nodes(paths.BROKER_TOPICS), [])
        self.assertFalse(member.broker.ready)
        self.outcome(other.stop())
        self.pass_time(2)
        self.assertEqual((member.broker.health()["problem"], self.nodes(paths.BROKER_TOPICS)), (None, ["t"]))

    def test_a_broker_takes_over_its_registration(self) -> None:
        """After a kill its own session may last on for seconds."""
        member = self.member(1)
        member.kill()
        self.assertEqual(self.nodes(paths.BROKER_IDS), ["1"])
        member.start()
        self.settle()
        _, stat = self.outcome(self.reader.get(paths.broker(1)))
        self.assertEqual(stat.ephemeral_owner, member.client.session_id)
        self.assertIsNone(member.broker.health()["problem"])

    def test_a_killed_broker_leads_nothing(self) -> None:
        """The others learn of it once its session is over."""
        one, two = self.member(1), self.member(2)
        self.create(one, "t", 2)
        two.kill()
        self.assertEqual(sorted(one.broker.brokers()), [1, 2])
        self.pass_time(SESSION + 2)
        self.assertEqual(sorted(one.broker.brokers()), [1])
        two.start()
        self.settle()
        self.assertEqual(sorted(one.broker.brokers()), [1, 2])


class TreeAwayTests(MembersTestCase):
    """Brokers while the tree cannot be reached."""

    def test_serving_goes_on_without_the_tree(self) -> None:
        """Creations and deletions fail with an error that allows another try."""
        member = self.member(1)
        entry = self.create(member, "t", 1)
        member.client.link.reachable = False
        member.client.link.cut()
        doing: list[Deferred[Any]] = [
            member.broker.administration.create("u", 1, {}),
            member.broker.administration.delete("t"),
        ]
        self.pass_time(25)
        for each in doing:
            error = self.error(each)
            self.assertIsInstance(error, CoordinationUnavailable)
        self.assertEqual(member.broker.topics.get("t"), entry)
        self.assertEqual(member.partitions("t"), [0])
        health = member.broker.health()
        self.assertEqual((health["status"], health["coordination"]), ("degraded", "suspended"))
        member.client.link.reachable = True
        self.pass_time(3)
        self.assertEqual(member.broker.health()["status"], "ok")
        self.create(member, "u", 1)

    def test_a_broker_starts_without_the_tree(self) -> None:
        """After a while the broker serves the topics that it stores, and goes on trying."""
        member = self.member(1)
        entry = self.create(member, "t", 1)
        self.outcome(member.stop())
        self.host.stop()
        member.start()
        self.pass_time(9)
        self.assertEqual(member.broker.topics.get("t"), entry)
        self.assertFalse(member.broker.ready)
        self.pass_time(20)
        self.assertTrue(member.broker.ready)
        self.assertFalse(member.membership.registered)
        error = self.error(member.broker.administration.create("u", 1, {}))
        self.assertIsInstance(error, CoordinationUnavailable)
        self.host.start()
        self.pass_time(5)
        self.assertTrue(member.membership.registered)
        self.create(member, "u", 1)

    def test_a_lost_session_is_replaced(self) -> None:
        """The broker registers again, and sees the topics made meanwhile."""
        one, two = self.member(1), self.member(2)
        two.client.link.reachable = False
        two.client.link.cut()
        self.pass_time(SESSION + 2)
        self.assertEqual(self.nodes(paths.BROKER_IDS), ["1"])
        self.create(one, "t", 1)
        two.client.link.reachable = True
        self.pass_time(5)
        self.assertEqual(self.nodes(paths.BROKER_IDS), ["1", "2"])
        self.assertEqual(two.broker.topics.names(), ["t"])
