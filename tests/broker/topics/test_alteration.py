"""Tests of changes of topics over two brokers: settings, more partitions, and the cluster's uuid."""

from __future__ import annotations

import json

from attrs import evolve
from twisted.python.failure import Failure

from logd.coord import paths
from logd.coord.registries.topics import encode_entry
from logd.errors import CoordinationUnavailable, InvalidTopic, UnknownTopic
from logd.topic import TopicEntry
from tests.broker.members import MembersTestCase
from tests.broker.topics.test_shared_tree import HELLO, log_of


class AlterationTests(MembersTestCase):
    """A topic of two partitions, one on each broker."""

    def setUp(self) -> None:
        """Start both brokers, and create the topic."""
        super().setUp()
        self.one, self.two = self.member(1), self.member(2)
        self.entry = self.create(self.one, "t", 2)
        self.settle()

    def alter(self, uuid: str = "", partitions: int = 0, **settings: str) -> TopicEntry:
        """Let the first broker change the topic; ``retention_ms="5"`` is the setting retention.ms."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        entry = self.outcome(self.one.broker.administration.alter("t", uuid, partitions, named))
        assert isinstance(entry, TopicEntry)
        return entry

    def stored(self) -> TopicEntry:
        """Return the entry in the tree."""
        return TopicEntry.from_json(json.loads(self.outcome(self.reader.get(paths.topic("t")))[0]))

    def logs(self) -> dict[int, int]:
        """Return the broker of each partition that has a log and is served."""
        return {
            number: member.id
            for member in (self.one, self.two)
            for number in member.partitions("t")
            if log_of(member, "t", number).offline is None
        }

    def test_settings_reach_every_broker(self) -> None:
        """Their logs have them at once, and the others' as they see the tree; a restart finds them."""
        entry = self.alter(retention_ms="7", message_format="0.7")
        self.assertEqual(entry.settings, {"retention.ms": 7, "message.format": "0.7"})
        self.assertEqual((entry.uuid, entry.partitions), (self.entry.uuid, self.entry.partitions))
        for _ in range(2):
            for number, broker in self.logs().items():
                settings = log_of(self.members[broker - 1], "t", number).settings
                self.assertEqual((settings.retention_ms, settings.message_format), (7, "0.7"))
            for member in (self.one, self.two):
                self.assertEqual(member.broker.topics.get("t"), entry)
                member.kill()
                member.start()
                self.settle()
        self.assertEqual(self.stored(), entry)

    def test_a_compacted_topic_is_kept_whole_by_every_broker(self) -> None:
        """Retention is off in the logs of all that store it, and on again when the policy is another."""
        for policy, kept in (("compact", (-1, -1)), ("compact,delete", (7, -1)), ("compact", (-1, -1))):
            changing = self.one.broker.administration.change(
                "t",
                lambda entry, policy=policy: evolve(  # type: ignore[misc]
                    entry, settings={"retention.ms": 7}, kafka_settings={"cleanup.policy": policy}
                ),
            )
            self.outcome(changing)
            self.settle()
            for number, broker in self.logs().items():
                settings = log_of(self.members[broker - 1], "t", number).settings
                self.assertEqual((settings.retention_ms, settings.retention_bytes), kept, policy)

    def test_other_settings_stay(self) -> None:
        """An empty value removes the topic's own, also one that no broker knows any more."""
        self.alter(retention_ms="7", segment_bytes="100")
        self.assertEqual(self.alter(retention_ms="8").settings, {"retention.ms": 8, "segment.bytes": 100})
        self.assertEqual(self.alter(retention_ms="").settings, {"segment.bytes": 100})
        odd = TopicEntry(self.entry.uuid, self.entry.partitions, {"of.tomorrow": 1})
        self.outcome(self.reader.set(paths.topic("t"), encode_entry(odd)))
        self.settle()
        self.assertEqual(self.alter(of_tomorrow="").settings, {})

    def test_what_is_not_allowed_changes_nothing(self) -> None:
        """Names, values, numbers, and a topic created again in between."""
        for uuid, partitions, settings, kind, text in (
            ("", 0, {"retention.mss": "1"}, InvalidTopic, "did you mean retention.ms"),
            ("", 0, {"retention.mss": ""}, InvalidTopic, "did you mean retention.ms"),
            ("", 0, {"retention.ms": "soon"}, InvalidTopic, "retention.ms = 'soon' is not allowed"),
            ("", 0, {"message.format": "0.8"}, InvalidTopic, "allowed is any or 0.7"),
            ("", 0, {"message.bytes": str(1 << 30)}, InvalidTopic, "not allowed with frame.bytes"),
            ("", 1, {}, InvalidTopic, "has 2 partitions and cannot have 1"),
            ("", -1, {}, InvalidTopic, "cannot have -1"),
            ("", 1 << 30, {}, InvalidTopic, "topics.max"),
            ("another", 3, {}, UnknownTopic, "with the uuid 'another'"),
        ):
            error = self.error(self.one.broker.administration.alter("t", uuid, partitions, settings))
            self.assertIsInstance(error, kind)
            self.assertIn(text, str(error))
        self.assertEqual(self.stored(), self.entry)
        self.assertIsInstance(self.error(self.one.broker.administration.alter("none", "", 3, {})), UnknownTopic)

    def test_a_topic_grows_over_both_brokers(self) -> None:
        """Former partitions keep their brokers and messages, and the new ones take messages at once."""
        before = self.logs()
        number = next(number for number, broker in before.items() if broker == 1)
        log_of(self.one, "t", number).append([HELLO], 1, -1)
        entry = self.alter(self.entry.uuid, 5)
        self.settle()
        after = self.logs()
        self.assertEqual(sorted(after), [0, 1, 2, 3, 4])
        self.assertEqual({number: after[number] for number in before}, before)
        self.assertEqual({each: (broker,) for each, broker in after.items()}, dict(entry.partitions))
        self.assertEqual({after[each] for each in (2, 3, 4)}, {1, 2})
        self.assertEqual(log_of(self.one, "t", number).end, len(HELLO))
        for each, broker in after.items():
            self.assertFalse(self.members[broker - 1].broker.growth.held.get("t"))
            log_of(self.members[broker - 1], "t", each).append([HELLO], 1, -1)
        ends = json.loads(self.outcome(self.reader.get(paths.stored_ends(entry.uuid, 1)))[0])["ends"]
        self.assertEqual(sorted(map(int, ends)), sorted(each for each, broker in after.items() if broker == 1))
        self.assertEqual(self.alter(partitions=5), entry)

    def test_a_topic_with_holes_grows_to_the_number_that_was_asked_for(self) -> None:
        """Only an entry made by hand has holes; the lowest free numbers are taken."""
        odd = TopicEntry(self.entry.uuid, {**self.entry.partitions, 7: (2,)}, {})
        self.outcome(self.reader.set(paths.topic("t"), encode_entry(odd)))
        self.settle()
        self.assertEqual(sorted(self.alter(partitions=5).partitions), [0, 1, 2, 3, 7])
        self.settle()
        self.assertEqual(sorted(self.logs()), [0, 1, 2, 3, 7])

    def test_two_brokers_change_a_topic_at_once(self) -> None:
        """Different settings are both kept. Of two numbers of partitions the greater one stays, and each is told so."""
        administrations = [member.broker.administration for member in (self.one, self.two)]
        for turn in range(20):
            names = ("retention.ms", "segment.bytes")
            both = [
                each.alter("t", "", 0, {name: str(turn + 1)}) for each, name in zip(administrations, names, strict=True)
            ]
            self.settle()
            for changing, name in zip(both, names, strict=True):
                self.assertEqual(self.successResultOf(changing).settings[name], turn + 1)
            self.assertEqual(self.stored().settings, dict.fromkeys(names, turn + 1))
        for fewer in range(3, 20, 3):
            few, many = administrations[0].alter("t", "", fewer), administrations[1].alter("t", "", fewer + 1)
            self.settle()
            self.assertEqual(len(self.successResultOf(many).partitions), fewer + 1)
            if isinstance(few.result, Failure):
                error = self.failureResultOf(few, InvalidTopic).value
                self.assertIn(f"has {fewer + 1} partitions and cannot have {fewer}", str(error))
            else:
                self.assertEqual(len(self.successResultOf(few).partitions), fewer)
            self.assertEqual(sorted(self.logs()), list(range(fewer + 1)))

    def test_an_old_view_of_the_tree_takes_nothing_back(self) -> None:
        """A comparison that comes before the watch has fired acts on the new entry."""
        reconciler = self.one.membership.reconciler
        reconciler._cache.stop()
        for partitions in (4, 6):
            self.alter(partitions=partitions)
            reconciler.recheck("t")
            self.settle()
            self.assertEqual(sorted(self.logs()), list(range(partitions)))
        reconciler._cache.start()
        self.settle()
        self.assertEqual(reconciler._own._altered, {})
        self.assertEqual(self.one.broker.topics.get("t"), self.stored())

    def test_without_the_tree_nothing_changes(self) -> None:
        """The client is told to try again."""
        self.host.stop()
        self.pass_time(20)
        altering = self.one.broker.administration.alter("t", "", 3, {})
        self.pass_time(20)
        self.assertIsInstance(self.failureResultOf(altering).value, CoordinationUnavailable)
        self.assertEqual(len(self.one.partitions("t")), 1)


class ClusterTests(MembersTestCase):
    """The cluster's uuid."""

    def test_all_brokers_have_one_uuid(self) -> None:
        """The first one makes it, and restarts keep it."""
        one, two = self.member(1), self.member(2)
        uuid = one.broker.topics.cluster()
        self.assertEqual(json.loads(self.outcome(self.reader.get("/cluster"))[0]), {"uuid": uuid})
        self.assertEqual(two.broker.topics.cluster(), uuid)
        one.kill()
        one.start()
        self.settle()
        self.assertEqual(one.broker.topics.cluster(), uuid)

    def test_a_bad_node_makes_itself_unusable(self) -> None:
        """Clients are told no uuid, and the broker serves all else."""
        self.outcome(self.reader.create("/cluster", b"[]"))
        one = self.member(1)
        self.assertEqual(one.broker.topics.cluster(), "")
        self.assertEqual(len(self.create(one, "t", 1).partitions), 1)
