"""Tests of reading backups from trees, and of writing them into others."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail

from logd.backup.backup_file import Backup
from logd.backup.reading import ATTEMPTS, ClusterChanges, read_tree
from logd.backup.restoring import RestoreInterrupted, RestoreOutcome, TreeInUse, restore
from logd.coord import paths
from logd.coord.errors import ConnectionLoss
from logd.coord.registries.deleted_topics import delete_topic, removed_by
from logd.coord.registries.stored_ends import StoredEnds
from logd.log.recovery.lost_log_replacement import JUMP
from tests.backup.test_backup_file import NODES
from tests.coord.registries.rig import RegistryTestCase

NOW = 1_764_000_000_000
NEVER_COPIED = {"/security/secret": b"s", "/brokers/ids/1": b"{}", "/consumers/g/owners/t/0": b"me", "/other": b"x"}


class _Watched:
    """A tree whose calls are counted; ``before(call number)`` may return a Deferred in place of the answer."""

    def __init__(self, tree: Any, before: Any) -> None:
        self._tree = tree
        self._before = before
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **more: Any) -> Deferred[Any]:
            self.calls += 1
            instead: Deferred[Any] | None = self._before(self.calls, name)
            return getattr(self._tree, name)(*arguments, **more) if instead is None else instead

        return call


class TreesTests(RegistryTestCase):
    """A tree with all kinds of nodes, and an empty one."""

    def setUp(self) -> None:
        """Fill the tree."""
        super().setUp()
        self.complaints: list[str] = []
        for path, data in {**NODES, **NEVER_COPIED}.items():
            self.put(path, data)

    def put(self, path: str, data: bytes, tree: Any = None) -> None:
        """Make a node."""
        tree = tree or self.tree

        async def put() -> None:
            if await tree.exists(path) is None:
                await tree.create(path, makepath=True)
            await tree.set(path, data)

        self.outcome(put())

    def value(self, path: str, tree: Any = None) -> bytes:
        """Return a node's value."""
        data: bytes = self.outcome((tree or self.tree).get(path))[0]
        return data

    def read(self, tree: Any = None) -> Backup:
        """Read a backup."""
        found = self.outcome(read_tree(tree or self.tree, lambda: NOW, lambda path, _: self.complaints.append(path)))
        assert isinstance(found, Backup)
        return found

    def restore(self, backup: Backup, adding: bool = False, tree: Any = None, now: int = NOW) -> RestoreOutcome:
        """Restore a backup."""
        self.slept: list[float] = []
        outcome = self.outcome(restore(tree or self.tree, backup, lambda: now, self.sleep, adding))
        assert isinstance(outcome, RestoreOutcome)
        return outcome

    async def sleep(self, seconds: float) -> None:
        """Note it."""
        self.slept.append(seconds)

    def empty_tree(self) -> Any:
        """Go on with an empty tree, and return a client of it."""
        super().setUp()
        return self.tree

    def test_a_backup_has_what_is_kept_and_nothing_else(self) -> None:
        """No secret, no node that ends with a session, nothing of others."""
        backup = self.read()
        kept = {path: data for path, data in backup.nodes.items() if data or path in NODES}
        self.assertEqual(kept, NODES)
        self.assertEqual((backup.cluster, backup.began_ms, backup.ended_ms), ("c", NOW, NOW))
        self.assertEqual(self.complaints, [])

    def test_a_node_that_logd_did_not_write_is_left_out(self) -> None:
        """It is named, and the rest is in the backup, which can be read again."""
        self.put("/brokers/topics/bad", b"{}")
        self.put("/consumers/g/offsets/t/1", b"soon")
        backup = self.read()
        self.assertEqual(sorted(self.complaints), ["/brokers/topics/bad", "/consumers/g/offsets/t/1"])
        self.assertNotIn("/brokers/topics/bad", backup.nodes)

    def test_definitions_are_of_one_moment(self) -> None:
        """A topic that is made while they are read makes them be read again; one at each attempt ends in an error."""
        made: list[int] = []
        self.count = 0

        def make(call: int, name: str) -> None:
            if call % 10 == 0 and len(made) < self.most:
                made.append(call)
                self.count += 1
                self.tree.create(f"/security/quotas/q{self.count}", b"{}", makepath=True)

        self.most = 1
        backup = self.read(_Watched(self.tree, make))
        self.assertIn("/security/quotas/q1", backup.nodes)
        self.most, made[:] = 1000, []
        error = self.error(read_tree(_Watched(self.tree, make), lambda: NOW, lambda *_: None))  # type: ignore[arg-type]
        self.assertIsInstance(error, ClusterChanges)
        self.assertIn(f"{ATTEMPTS} attempts", str(error))

    def test_an_empty_tree_gets_all_of_it(self) -> None:
        """Topics with stored ends far behind the former ones, given up; producers' ids behind the former ones."""
        backup = self.read()
        tree = self.empty_tree()
        self.put("/cluster", b'{"uuid": "new"}', tree)
        self.put("/brokers/ids/1", b"{}", tree)
        outcome = self.restore(backup, tree=tree, now=NOW + 9_000)
        self.assertEqual(([each.name for each in outcome.topics], outcome.positions, outcome.kept), (["t"], 1, []))
        self.assertTrue(outcome.cluster_changed)
        again = self.read()
        stored = StoredEnds("i", {0: 10 * JUMP}, given_up=frozenset((0,)))
        self.assertEqual(again.nodes["/brokers/stored/u/1"], stored.encode())
        self.assertEqual(again.nodes["/producers/ids"], b"1003000")
        changed = {"/brokers/stored/u/1", "/producers/ids"}
        same = {path: data for path, data in again.nodes.items() if path not in changed}
        self.assertEqual(same, {path: data for path, data in backup.nodes.items() if path not in changed})

    def test_ids_of_producers_beyond_31_bits(self) -> None:
        """They are in a backup, and go on behind the former ones."""
        self.put("/producers/ids", b"%d" % (1 << 31))
        backup = self.read()
        self.assertEqual(self.complaints, [])
        tree = self.empty_tree()
        self.restore(backup, tree=tree, now=NOW + 9_000)
        self.assertEqual(self.value("/producers/ids"), b"%d" % ((1 << 31) + 1_000_000))

    def test_no_topic_is_made_before_other_positions_would_be_chosen(self) -> None:
        """Two restorations within a second would give the same ids to different messages."""
        backup = self.read()
        for age, slept in ((9_250, 0.75), (3 * 86_400_000 + 1_000, 59.0)):
            tree = self.empty_tree()
            self.restore(backup, tree=tree, now=NOW + age)
            self.assertEqual(self.slept, [slept])
        self.restore(backup, adding=True, tree=tree)
        self.assertEqual(self.slept, [])  # there is no topic to make

    def test_a_clock_that_is_set_meanwhile(self) -> None:
        """Forth or back: the wait is no longer than it was, and none is left out."""
        backup = self.read()
        for later, slept in ((0.25, 0.75), (7, 0), (-3600, 1)):
            tree = self.empty_tree()
            self.slept = []
            times = iter([NOW, int(NOW + later * 1000)])
            self.outcome(restore(tree, backup, lambda: next(times), self.sleep, False))  # noqa: B023
            self.assertEqual(self.slept, [slept])

    def test_a_tree_in_use_is_refused(self) -> None:
        """Whatever it has of topics, groups, users or schemas; nothing is written."""
        backup = self.read()
        for path in ("/brokers/topics/x", "/consumers/x", "/security/users/x", "/security/rules/x", "/schemas/ids/7"):
            tree = self.empty_tree()
            self.put(path, b"", tree)
            error = self.error(restore(tree, backup, lambda: NOW, self.sleep, False))
            self.assertIsInstance(error, TreeInUse)
            self.assertIn(path.rpartition("/")[0], str(error))
            self.assertIn("--add", str(error))
            self.assertIsNone(self.outcome(tree.exists("/cluster")))

    def test_adding_leaves_what_is_there(self) -> None:
        """Topics of the same name, users and positions stay; those that are missing come."""
        backup = self.read()
        tree = self.empty_tree()
        self.put("/security/users/alice", b"new", tree)
        self.put("/brokers/topics/t", NODES["/brokers/topics/t"].replace(b'"u"', b'"v"'), tree)
        self.put("/schemas/ids/9", b"{}", tree)
        outcome = self.restore(backup, adding=True, tree=tree)
        self.assertEqual((outcome.topics, outcome.kept_topics), ([], ["t"]))
        self.assertEqual(sorted(outcome.kept), ["/schemas", "/security/users/alice"])
        self.assertEqual(self.value("/security/users/alice"), b"new")
        for path in ("/brokers/stored/u/1", "/schemas/ids/1", "/consumers/g/offsets/t/0"):
            # Positions in a topic of another uuid would be positions of other messages.
            self.assertIsNone(self.outcome(tree.exists(path)), path)
        self.assertEqual(self.value("/consumers/g/generation"), b"")

    def test_no_id_of_a_schema_is_given_again(self) -> None:
        """A registry that was asked before has its nodes in the tree, without a schema, and the last id 0."""
        self.put("/schemas/last_id", b"3")
        backup = self.read()
        for last, then in ((b"0", b"3"), (b"7", b"7")):
            tree = self.empty_tree()
            self.put("/schemas/ids", b"", tree)
            self.put("/schemas/last_id", last, tree)
            self.assertEqual(self.restore(backup, tree=tree).kept, [])
            self.assertEqual(self.value("/schemas/last_id", tree), then)
            self.assertEqual(self.value("/schemas/ids/1", tree), NODES["/schemas/ids/1"])

    def test_positions_in_a_topic_that_is_there_come_back(self) -> None:
        """If it is the same topic, by its uuid."""
        backup = self.read()
        tree = self.empty_tree()
        self.put("/brokers/topics/t", NODES["/brokers/topics/t"], tree)
        self.assertEqual(self.restore(backup, adding=True, tree=tree).positions, 1)
        self.assertEqual(self.value("/consumers/g/offsets/t/0"), b"120")
        self.assertIsNone(self.outcome(tree.exists("/brokers/stored/u/1")))

    def test_a_topic_that_was_deleted_is_deleted_no_more(self) -> None:
        """By the note of that, a broker that comes back without the topic would remove its stored ends."""
        backup = self.read()
        tree = self.empty_tree()
        self.put("/brokers/deleted/u", b'{"topic": "t", "brokers": [1]}', tree)
        self.restore(backup, adding=True, tree=tree)
        self.outcome(removed_by(tree, "u", 1))
        self.assertIsNotNone(self.outcome(tree.exists("/brokers/stored/u/1")))
        self.outcome(delete_topic(tree, "t"))
        self.assertIsNone(self.outcome(tree.exists("/brokers/topics/t")))

    def test_the_note_of_a_topic_that_is_registered_again_is_left_out(self) -> None:
        """A broker that was away when it was deleted has registered it in the new tree before the restoration."""
        for number, name in enumerate(("again", "gone", "other")):
            self.put(f"/brokers/deleted/v{number}", b'{"topic": "%s", "brokers": [1]}' % name.encode())
        self.put("/brokers/deleted/v3", b'{"topic": "../x", "brokers": [1]}')
        self.put("/brokers/deleted/v4", b'{"topic": 5, "brokers": [1]}')
        backup = self.read()
        tree = self.empty_tree()
        for name, uuid in (("again", b'"v0"'), ("other", b'"w"')):
            self.put(f"/brokers/topics/{name}", NODES["/brokers/topics/t"].replace(b'"u"', uuid), tree)
        outcome = self.restore(backup, adding=True, tree=tree)
        self.assertEqual(self.outcome(tree.get_children("/brokers/deleted")), ["v1", "v2", "v3", "v4"])
        self.assertEqual((outcome.registered_again, outcome.kept), (["again"], []))
        self.outcome(delete_topic(tree, "again"))
        self.assertIsNone(self.outcome(tree.exists("/brokers/topics/again")))

    def test_stored_ends_that_were_left_count(self) -> None:
        """A topic that was further than the backup knows does not fall back."""
        backup = self.read()
        tree = self.empty_tree()
        self.put("/brokers/stored/u/1", StoredEnds("i", {0: 900 * JUMP}).encode(), tree)
        self.restore(backup, tree=tree)
        stored = StoredEnds.decode("", self.value(paths.stored_ends("u", 1)))
        self.assertEqual((stored.ends, stored.given_up), ({0: 900 * JUMP}, frozenset((0,))))

    def test_a_restoration_goes_on_after_an_interruption(self) -> None:
        """At whichever call: no topic is there without its stored ends, and --add completes it.

        Without the last id a schema that is registered in between would get the id of one in the backup.
        """
        schemas = {f"/schemas/ids/{number}": b"{}" for number in (2, 3)} | {"/schemas/last_id": b"3"}
        for path, data in schemas.items():
            self.put(path, data)
        backup = self.read()
        whole = _Watched(self.empty_tree(), lambda call, name: None)
        self.restore(backup, tree=whole)
        expected = self.read().nodes
        for broken in range(8, whole.calls + 1):
            tree = self.empty_tree()
            lost = _Watched(tree, lambda call, name, at=broken: fail(ConnectionLoss("lost")) if call >= at else None)
            error = self.error(restore(lost, backup, lambda: NOW, self.sleep, False))  # type: ignore[arg-type]
            self.assertIsInstance(error, RestoreInterrupted)
            if self.outcome(tree.exists("/brokers/topics/t")) is not None:
                self.assertIsNotNone(self.outcome(tree.exists("/brokers/stored/u/1")))
            if self.outcome(tree.exists("/schemas/ids/1")) is not None:
                self.assertEqual(self.value("/schemas/last_id", tree), b"3")
            self.restore(backup, adding=True, tree=tree)
            found = self.read().nodes
            self.assertEqual(set(expected) - set(found) - {"/cluster"}, set(), broken)
