"""Tests of logd.coord.tree.tree: cases that random requests do not reach."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import BadArguments, InvalidAcl, NoAuth, NoNode, SessionExpired
from logd.coord.records import (
    OPEN_ACL,
    Acl,
    Create,
    Created,
    Delete,
    EventType,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Permission,
    Request,
    SetAcl,
    SetData,
    Sync,
)
from logd.coord.tree.changes import Change, NodeMade, NodeRemoved, SessionClosed, SessionOpened
from logd.coord.tree.nodes import FIRST_NODES, Node
from logd.coord.tree.outcome import MultiFailed
from logd.coord.tree.pathnames import check_path, name_of, parent_of
from logd.coord.tree.tree import Tree, TreeSnapshot


class TreeTests(SynchronousTestCase):
    """The tree's answers and changes."""

    def setUp(self) -> None:
        """Open a session."""
        self.tree = Tree()
        self.session = self.tree.open_session(1_000, b"", 0).zxid

    def ask(self, request: Request, session: int = 0) -> Any:
        """Return the answer to a request."""
        return self.tree.execute(session or self.session, (), request, 7).answer

    def test_a_new_tree_is_that_of_zookeeper(self) -> None:
        """Its nodes were never made, so their lists have changed less than never."""
        tree = Tree()
        self.assertEqual(sorted(tree.nodes), ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"])
        root, inner = tree.stat("/"), tree.stat("/zookeeper")
        self.assertEqual((root.children_version, root.children_count, root.created_ms), (-1, 1, 0))
        self.assertEqual((inner.children_version, inner.children_count), (-2, 2))

    def test_versions_go_on_beyond_their_largest_value(self) -> None:
        """A version begins again with 0, and a list's counter goes on below zero."""
        last = (1 << 31) - 1
        node = Node(version=last, acl_version=last, children_made=1 << 30)
        self.tree = Tree(TreeSnapshot(0, {**FIRST_NODES, "/n": node}))
        self.session = self.tree.open_session(1_000, b"", 0).zxid
        self.assertEqual(self.ask(SetData("/n", b"")).version, 0)
        changed = self.ask(SetAcl("/n", OPEN_ACL))
        self.assertEqual((changed.acl_version, changed.children_version), (0, -1 << 31))

    def test_the_first_nodes_cannot_be_deleted(self) -> None:
        """ZooKeeper's clients rely on them."""
        for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
            self.assertIsInstance(self.ask(Delete(path)), BadArguments)

    def test_a_path_with_a_null_character_is_refused(self) -> None:
        """An exists of it is refused, as in ZooKeeper, while a read finds no node."""
        self.assertIsInstance(self.ask(Exists("/a\0")), BadArguments)
        self.assertIsInstance(self.ask(GetData("/a\0")), NoNode)

    def test_nothing_is_done_without_a_session(self) -> None:
        """Reads and changes are refused, and no watch is left."""
        for request in (GetData("/"), Create("/a"), Multi(()), Exists("/", watch=True), Sync("/")):
            self.assertIsInstance(self.ask(request, 99), SessionExpired)
        self.assertIsInstance(self.tree.close_session(99, 0).answer, SessionExpired)
        self.assertEqual((self.tree.zxid, len(self.tree.watches.data)), (1, 0))

    def test_a_change_has_the_path_with_its_number(self) -> None:
        """It has the time too, so that a replay gives the same tree."""
        outcome = self.tree.execute(self.session, (), Create("/a-", b"x", sequence=True, ephemeral=True), 7)
        assert isinstance(outcome.answer, Created)
        self.assertEqual(outcome.answer.path, "/a-0000000000")
        assert outcome.change is not None
        (made,) = outcome.change.effects
        assert isinstance(made, NodeMade)
        self.assertEqual((made.path, made.ephemeral, outcome.change.time_ms), ("/a-0000000000", True, 7))

    def test_numbers_of_a_failed_multi_are_given_again(self) -> None:
        """The failed one left nothing behind."""
        failed = self.ask(Multi((Create("/s", sequence=True), Create("/s", sequence=True), Delete("/no"))))
        assert isinstance(failed, MultiFailed)
        self.assertEqual(failed.codes(), (0, 0, NoNode.code))
        done = self.ask(Multi((Create("/s", sequence=True), Create("/s", sequence=True))))
        self.assertEqual([each.path for each in done], ["/s0000000000", "/s0000000001"])
        self.assertEqual({each.stat.created_zxid for each in done}, {2})

    def test_a_path_that_no_node_can_have_is_not_there(self) -> None:
        """A change of it is refused."""
        for path in ("", "a", "/a/", "//"):
            self.assertIsInstance(self.ask(GetData(path)), NoNode)
            self.assertIsInstance(self.ask(SetData(path, b"")), BadArguments)

    def test_the_first_of_several_errors_is_that_of_zookeeper(self) -> None:
        """The expected errors are those of a real ZooKeeper 3.9."""
        self.ask(Create("/shut", acl=(Acl(Permission.READ, "world", "anyone"),)))
        nobody = (Acl(31, "nobody", ""),)
        for request, error in (
            (Create("/no/a", acl=nobody), InvalidAcl),
            (Create("/a//b", acl=nobody), InvalidAcl),
            (Create("/a//b"), NoNode),
            (Create("/shut/"), NoAuth),
            (Create("/a/../b"), NoNode),
            (Create("/."), BadArguments),
            (Create("a"), BadArguments),
            (Delete("/shut/no"), NoAuth),
            (Delete("/a//b"), NoNode),
            (Delete("/no", version=3), NoNode),
        ):
            self.assertIsInstance(self.ask(request), error, request)

    def test_a_change_that_does_not_follow_is_refused(self) -> None:
        """A gap in the journal must not pass unseen."""
        change = Change(3, 0, 1, (NodeRemoved("/a"),))
        self.assertRaises(ValueError, self.tree.replay, change)

    def test_a_snapshot_does_not_see_later_changes(self) -> None:
        """It is written while the tree goes on."""
        self.ask(Create("/a", b"1"))
        snapshot = self.tree.snapshot()
        self.ask(SetData("/a", b"2"))
        self.ask(Create("/a/b"))
        self.assertEqual((snapshot.nodes["/a"].data, "/a/b" in snapshot.nodes), (b"1", False))
        self.assertEqual(snapshot.nodes["/a"].children_made, 0)
        self.assertNotEqual(Tree.restore(snapshot).snapshot(), self.tree.snapshot())

    def test_a_sessions_password_does_not_show_in_a_log(self) -> None:
        """It is all that a stranger would need to take over the session."""
        self.assertNotIn("hidden", repr(SessionOpened(1, b"hidden")))

    def test_ten_thousand_ephemeral_nodes_end_with_their_session(self) -> None:
        """A thousand sessions watch: each is told once."""
        count = 10_000
        self.ask(Create("/p"))
        for number in range(count):
            self.ask(Create(f"/p/{number}", ephemeral=True))
        watchers = [self.tree.open_session(1_000, b"", 0).zxid for _ in range(1_000)]
        for watcher in watchers:
            self.ask(GetChildren("/p", watch=True), watcher) if watcher == watchers[0] else None
            self.ask(GetData("/p/77", watch=True), watcher)
        outcome = self.tree.close_session(self.session, 0)
        assert outcome.change is not None
        self.assertEqual(outcome.change.effects, (SessionClosed(),))
        told = [(id_, event.type) for id_, event, _ in outcome.notifications]
        self.assertEqual(told[0], (watchers[0], EventType.CHILDREN))
        self.assertEqual(sorted(told[1:]), [(id_, EventType.DELETED) for id_ in watchers])
        self.assertEqual((self.tree.stat("/p").children_count, len(self.tree.watches.data)), (0, 0))
        self.assertEqual(self.tree.stat("/p").children_version, 2 * count)


class PathnameTests(SynchronousTestCase):
    """The paths that a node may have."""

    def test_absolute_paths_of_nearly_any_characters_are_allowed(self) -> None:
        """A name of three dots is allowed, while names of one and two are not."""
        for path in ("/", "/a", "/a/b.c", "/...", "/.a/a./..b", "/ü/日本", "/a b", "/\uf900", "/\uffef"):
            self.assertEqual(check_path(path), path)

    def test_relative_paths_and_control_characters_are_refused(self) -> None:
        """Empty names, relative names and all else that ZooKeeper refuses are too."""
        names = ("\0", "\x01", "\x1f", "\x7f", "\x9f", "\ud800", "\ue000", "\uf8ff", "\ufff0", "\uffff", "\U0001f600")
        for path in (
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            *(f"/a{n}" for n in names),
        ):
            self.assertRaises(BadArguments, check_path, path)

    def test_a_path_consists_of_parent_and_name(self) -> None:
        """The root is its own parent and has no name."""
        self.assertEqual((parent_of("/a"), name_of("/a")), ("/", "a"))
        self.assertEqual((parent_of("/a/b"), name_of("/a/b")), ("/a", "b"))
        self.assertEqual((parent_of("/"), name_of("/")), ("/", ""))


class SnapshotTests(SynchronousTestCase):
    """A snapshot by itself."""

    def test_the_snapshot_of_a_new_tree_is_empty(self) -> None:
        """It has the first nodes and nothing else."""
        self.assertEqual(Tree().snapshot(), TreeSnapshot())
