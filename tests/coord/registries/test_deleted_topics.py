"""Tests of the deletion of topics: while positions are committed, and while a topic is made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.errors import BadVersion, NoNode
from logd.coord.records import Operation
from logd.coord.registries.deleted_topics import brokers_to_remove, delete_topic, removed_by
from logd.coord.registries.topics import create_topic, read_topic
from logd.errors import UnknownTopic
from logd.topic import TopicEntry
from tests.coord.registries.rig import RegistryTestCase

ENTRY = TopicEntry("some-uuid", {0: (1,), 1: (2,)})


class DeleteTopicTests(RegistryTestCase):
    """A topic, committed positions of two groups, and the note for the brokers."""

    def setUp(self) -> None:
        """Make a topic with positions of two groups."""
        super().setUp()
        self.outcome(create_topic(self.tree, "t", ENTRY))
        for group in ("g", "h"):
            for name in ("t", "u"):
                self.outcome(self.tree.create(paths.group_offset(group, name, 0), b"1", makepath=True))

    def test_a_deleted_topic_is_gone_with_its_positions(self) -> None:
        """Other topics' positions stay; the note names the brokers that store something."""
        self.outcome(delete_topic(self.tree, "t"))
        self.assertIsInstance(self.error(read_topic(self.tree, "t")), UnknownTopic)
        for group in ("g", "h"):
            self.assertEqual(self.outcome(self.tree.get_children(f"{paths.group(group)}/offsets")), ["u"])
        self.assertEqual(self.outcome(brokers_to_remove(self.tree, "some-uuid")), (1, 2))
        self.assertIsInstance(self.error(delete_topic(self.tree, "t")), UnknownTopic)

    def test_a_topic_made_again_during_a_delete_is_deleted_as_itself(self) -> None:
        """The note names the topic that is deleted: its brokers would make it anew otherwise."""
        other = self.client()
        new = TopicEntry("new", {0: (3,)})
        looked, children = Deferred[list[str]](), self.tree.get_children

        def look(path: str, timeout: float | None = None) -> Deferred[list[str]]:
            return looked

        self.tree.get_children = look  # type: ignore[method-assign]
        deleting = Deferred.fromCoroutine(delete_topic(self.tree, "t"))
        self.settle()
        self.outcome(delete_topic(other, "t"))
        for broker in (1, 2):
            self.outcome(removed_by(other, "some-uuid", broker))
        self.outcome(create_topic(other, "t", new))
        self.tree.get_children = children  # type: ignore[method-assign]
        looked.callback([])
        self.settle()
        self.successResultOf(deleting)
        self.assertIsNone(self.outcome(brokers_to_remove(other, "some-uuid")))
        self.assertEqual(self.outcome(brokers_to_remove(other, "new")), (3,))

    def test_a_note_of_others_is_an_error_that_names_it(self) -> None:
        """It stays as it is."""
        path = "/brokers/deleted/some-uuid"
        self.outcome(self.tree.create(path, b'{"brokers": 1}', makepath=True))
        for asking in (brokers_to_remove(self.tree, "some-uuid"), removed_by(self.tree, "some-uuid", 1)):
            error = self.error(asking)
            self.assertIsInstance(error, ValueError)
            self.assertIn(path, str(error))
        self.assertIsNotNone(self.outcome(self.tree.exists(path)))

    def test_the_last_broker_removes_the_note(self) -> None:
        """Each strikes itself out; twice is harmless."""
        self.outcome(delete_topic(self.tree, "t"))
        self.outcome(removed_by(self.tree, "some-uuid", 2))
        self.outcome(removed_by(self.tree, "some-uuid", 2))
        self.assertEqual(self.outcome(brokers_to_remove(self.tree, "some-uuid")), (1,))
        self.outcome(removed_by(self.tree, "some-uuid", 1))
        self.assertIsNone(self.outcome(brokers_to_remove(self.tree, "some-uuid")))
        self.outcome(removed_by(self.tree, "some-uuid", 1))

    def test_a_broker_that_is_struck_out_already(self) -> None:
        """The note is not written again: that would make the attempts of the others fail."""
        self.outcome(delete_topic(self.tree, "t"))
        path = "/brokers/deleted/some-uuid"
        for broker in (2, 2, 3):
            self.outcome(removed_by(self.tree, "some-uuid", broker))
        self.assertEqual(self.outcome(self.tree.get(path))[1].version, 1)

    def test_a_note_that_cannot_be_removed(self) -> None:
        """The last broker is told so, with the reason, and can try again later."""
        self.outcome(delete_topic(self.tree, "t"))
        self.outcome(removed_by(self.tree, "some-uuid", 2))
        below = f"{paths.stored_ends('some-uuid', 1)}/by-hand"
        self.outcome(self.tree.create(below, makepath=True))
        error = self.error(removed_by(self.tree, "some-uuid", 1))
        self.assertIsInstance(error, BadVersion)
        self.assertIn("/brokers/deleted/some-uuid", str(error))
        self.assertIn(paths.stored_ends("some-uuid", 1), str(error))
        self.assertEqual(self.outcome(brokers_to_remove(self.tree, "some-uuid")), (1,))
        self.outcome(self.tree.delete(below))
        self.outcome(removed_by(self.tree, "some-uuid", 1))
        self.assertIsNone(self.outcome(brokers_to_remove(self.tree, "some-uuid")))

    def test_many_brokers_at_the_same_time(self) -> None:
        """Each strikes itself out, however often the others are faster, and the last one removes the note."""
        brokers = tuple(range(12))
        self.outcome(create_topic(self.tree, "many", TopicEntry("uuid-of-many", {0: brokers})))
        self.outcome(delete_topic(self.tree, "many"))
        for client in (clients := [self.client() for _ in brokers]):
            client.link.delay = lambda: 0.05
        leaving = [
            Deferred.fromCoroutine(removed_by(client, "uuid-of-many", broker))
            for broker, client in zip(brokers, clients, strict=True)
        ]
        self.pass_time(10)
        for each in leaving:
            self.successResultOf(each)
        self.assertIsNone(self.outcome(brokers_to_remove(self.tree, "uuid-of-many")))

    def test_commits_during_a_delete_leave_nothing_behind(self) -> None:
        """They do not stop the delete either."""
        other = self.client()
        for number in range(1, 10):
            self.clock.callLater(0.1 * number, other.create, paths.group_offset("g", "t", number), b"2")
        self.tree.link.delay = lambda: 0.02
        doing = Deferred.fromCoroutine(delete_topic(self.tree, "t"))
        self.pass_time(20)  # each message takes a step of it
        self.successResultOf(doing)
        self.tree.link.delay = lambda: 0.0
        self.assertIsInstance(self.error(self.tree.get(paths.group_offset("g", "t", 0))), NoNode)
        self.assertEqual(self.outcome(self.tree.get_children(f"{paths.group('g')}/offsets")), ["u"])

    def error_while(self, path: str) -> BaseException:
        """Return the error of a deletion, while another client makes nodes of this path, a number behind it."""
        other = self.client()
        multi, made = self.tree.multi, iter(range(1000))

        def change(operations: Sequence[Operation], timeout: float | None = None) -> Deferred[Any]:
            return other.create(f"{path}{next(made)}").addCallback(lambda _: multi(operations))

        self.tree.multi = change  # type: ignore[method-assign]
        return self.error(delete_topic(self.tree, "t"))

    def test_changes_that_keep_a_topic_from_being_deleted(self) -> None:
        """The topic exists, no consumer has to be stopped, and another attempt may be made."""
        error = self.error_while(f"{paths.topic('t')}/change-")
        self.assertIsInstance(error, BadVersion)
        self.assertIn("other brokers are changing it", str(error))
        self.assertIn("delete it again", str(error))
        self.assertNotIn("consumers", str(error))

    def test_commits_that_keep_a_topic_from_being_deleted(self) -> None:
        """The groups are named whose consumers have to be stopped."""
        path = paths.group_offset("busy", "t", 0)
        self.outcome(self.tree.create(path, b"1", makepath=True))
        error = self.error_while(path)
        self.assertIsInstance(error, BadVersion)
        self.assertIn("group busy commits positions in it", str(error))
        self.assertIn("stop its consumers", str(error))

    def test_a_note_of_the_deletion_of_a_topic_that_exists(self) -> None:
        """No attempt helps: the node is named that has to be removed."""
        path = "/brokers/deleted/some-uuid"
        self.outcome(self.tree.create(path, b'{"topic": "t", "brokers": [1]}', makepath=True))
        error = self.error(delete_topic(self.tree, "t"))
        self.assertIsInstance(error, BadVersion)
        self.assertIn(f"remove {path}", str(error))

    def test_the_stored_ends_of_a_topic_that_exists_stay(self) -> None:
        """Though a note tells of its deletion: without them a lost log would give positions again."""
        self.outcome(self.tree.create("/brokers/deleted/some-uuid", b'{"topic": "t", "brokers": [1]}', makepath=True))
        self.outcome(self.tree.create(paths.stored_ends("some-uuid", 1), b"{}", makepath=True))
        self.outcome(removed_by(self.tree, "some-uuid", 1))
        self.assertIsNone(self.outcome(brokers_to_remove(self.tree, "some-uuid")))
        self.assertIsNotNone(self.outcome(self.tree.exists(paths.stored_ends("some-uuid", 1))))

    def test_a_delete_takes_any_number_of_positions(self) -> None:
        """1,500 of them do not fit into one change."""
        for number in range(1, 1500):
            self.tree.create(paths.group_offset("g", "t", number), b"1")
        self.outcome(delete_topic(self.tree, "t"))
        self.assertEqual(self.outcome(self.tree.get_children(f"{paths.group('g')}/offsets")), ["u"])
