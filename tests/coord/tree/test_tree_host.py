"""Tests of logd.coord.tree.tree_host: what is told when, and to whom."""

from __future__ import annotations

from logd.coord.records import (
    Acl,
    Create,
    Delete,
    EventType,
    Exists,
    GetChildren,
    GetData,
    SetAcl,
    SetData,
)
from logd.coord.tree.access import digest_identity
from logd.coord.tree.interfaces import CutReason
from logd.coord.tree.outcome import Outcome
from logd.coord.tree.tree import Tree, TreeSnapshot
from tests.coord.tree.hosting import HostCase, Listener


class HoldingBackTests(HostCase):
    """Nothing is told before what it may show is flushed."""

    def test_write_waits(self) -> None:
        """A change is made at once, and answered when it is flushed."""
        one = self.connect()
        one.ask(Create("/a"))
        self.assertIn("/a", self.host.tree.nodes)
        self.assertEqual((one.take(), self.host.held_back), ([], 1))
        self.journal.flush()
        self.assertEqual((one.take(), self.host.held_back), (["Created"], 0))

    def test_read_of_unflushed_waits(self) -> None:
        """Another session's read waits too while it could show what is not flushed."""
        one, other = self.connect(), self.connect()
        one.ask(Create("/a"))
        other.ask(GetData("/a"))
        self.assertEqual(other.take(), [])
        self.journal.flush()
        self.assertEqual(other.take(), ["NodeData"])

    def test_read_of_flushed(self) -> None:
        """While nothing is unflushed a read is answered before the call returns."""
        one = self.connect()
        one.ask(GetData("/"))
        self.assertEqual(one.take(), ["NodeData"])

    def test_group(self) -> None:
        """A flush releases exactly what lies up to it."""
        one = self.connect()
        for request in (Create("/a"), GetData("/a"), Create("/b"), GetData("/b")):
            one.ask(request)
        self.journal.flush(1)
        self.assertEqual(one.take(), ["Created", "NodeData"])
        self.journal.flush(1)
        self.assertEqual(one.take(), ["Created", "NodeData"])

    def test_failure_waits(self) -> None:
        """An error shows the tree too: that a node is there which is not flushed."""
        one, other = self.connect(), self.connect()
        one.ask(Create("/a"))
        other.ask(Create("/a"))
        self.assertEqual(other.take(), [])
        self.journal.flush()
        self.assertEqual(other.take(), ["NodeExists"])

    def test_watch_waits(self) -> None:
        """A watch tells of a change once it is flushed, before any answer that shows it."""
        one, other = self.connect(), self.connect()
        other.ask(Exists("/a", watch=True))
        other.take()
        one.ask(Create("/a"))
        other.ask(GetData("/a"))
        self.assertEqual(other.take(), [])
        self.journal.flush()
        self.assertEqual(other.take(), [(EventType.CREATED, "/a"), "NodeData"])

    def test_own_watch_first(self) -> None:
        """A session's own watch fires before the answer to its change."""
        one = self.connect()
        one.ask(GetData("/", watch=True))
        one.ask(SetData("/", b""))
        self.journal.flush()
        self.assertEqual(one.take(), ["NodeData", (EventType.CHANGED, "/"), "Stat"])

    def test_a_listener_that_raises(self) -> None:
        """Everybody is told although one of them raises; the error is raised when all were."""
        one, other = self.connect(), self.connect()
        for each in (one, other):
            each.ask(GetData("/", watch=True))
            each.take()

        def broken() -> None:
            raise ValueError("a bug")

        one.when_notified = broken
        asking = self.connect()
        asking.ask(SetData("/", b""))
        self.assertRaises(ValueError, self.journal.flush)
        self.assertEqual(other.take(), [(EventType.CHANGED, "/")])
        self.assertEqual((asking.take()[-1:], self.host.held_back), (["Stat"], 0))

    def test_asking_while_told(self) -> None:
        """Who asks for more while it is told something gets that behind everything that was due."""
        one, other = self.connect(), self.connect()
        for each in (one, other):
            each.ask(GetData("/", watch=True))
            each.take()
        order: list[str] = []
        assert one.attachment is not None
        attachment = one.attachment

        def ask_more() -> None:
            order.append("one")
            attachment.execute(GetData("/"), lambda outcome: order.append("answer"))

        one.when_notified, other.when_notified = ask_more, lambda: order.append("other")
        self.connect().ask(SetData("/", b""))
        self.journal.flush()
        self.assertEqual(order, ["one", "other", "answer"])

    def test_asking_without_end(self) -> None:
        """Who asks again at each answer makes no recursion."""
        one = self.connect()
        assert one.attachment is not None
        attachment, answers = one.attachment, 0

        def again(outcome: Outcome) -> None:
            nonlocal answers
            answers += 1
            if answers < 5_000:
                attachment.execute(GetData("/"), again)

        attachment.execute(GetData("/"), again)
        self.assertEqual(answers, 5_000)

    def test_journal_fails(self) -> None:
        """When the journal fails everybody is cut, nothing unflushed is told, and nothing is served any more."""
        one, other = self.connect(), self.connect()
        one.ask(Create("/a"))
        other.ask(GetData("/a"))
        error = OSError("no space")
        self.journal.fail(error)
        self.assertEqual((one.take(), other.take(), self.failures), ([CutReason.STOPPED], [CutReason.STOPPED], [error]))
        one.ask(GetData("/"))
        self.assertEqual(one.take(), [])
        late = Listener()
        self.assertIsNone(self.host.open_session(late, 5_000, (), late.attached))
        self.assertEqual(late.take(), [CutReason.STOPPED])
        self.assertEqual(self.reattach(one).take(), [CutReason.STOPPED])
        self.assertEqual(self.clock.getDelayedCalls(), [])


class SessionTests(HostCase):
    """Sessions are opened, moved, ended and expired."""

    def test_open(self) -> None:
        """A session is told once it is flushed; its timeout is within the limits."""
        listener = Listener()
        self.host.open_session(listener, 1, (), listener.attached)
        self.assertEqual(listener.take(), [])
        self.journal.flush()
        self.assertEqual(listener.take(), ["attached"])
        assert listener.attachment is not None
        self.assertEqual(listener.attachment.session.timeout_ms, 1_000)
        self.assertEqual(len(listener.attachment.session.password), 16)
        self.assertNotIn("password", repr(listener.attachment.session))

    def test_reattach_moves(self) -> None:
        """A session that is attached again lets its old connection go, with its watches and its due answers."""
        old = self.connect()
        old.ask(GetData("/", watch=True))
        old.take()
        old.ask(Create("/a"))
        new = self.reattach(old)
        self.assertEqual((old.take(), new.take()), ([CutReason.MOVED], []))
        self.journal.flush()
        self.assertEqual((old.take(), new.take()), ([], ["attached"]))
        new.ask(SetData("/", b""))
        self.journal.flush()
        self.assertEqual((old.take(), new.take()), ([], ["Stat"]))
        old.ask(GetData("/"))
        self.assertEqual(old.take(), [])

    def test_wrong_password(self) -> None:
        """Who does not know the password does not get the session, and disturbs nobody."""
        old, listener = self.connect(), Listener()
        assert old.attachment is not None
        self.host.attach(listener, old.attachment.session.id, b"x" * 16, (), listener.attached)
        self.host.attach(listener, 77, b"x" * 16, (), listener.attached)
        self.assertEqual((listener.take(), old.take()), (["no session", "no session"], []))

    def test_close(self) -> None:
        """A closed session is gone once that is flushed: behind answers that were due, and told of its own nodes."""
        one, other = self.connect(), self.connect()
        one.ask(Create("/e", ephemeral=True))
        self.journal.flush()
        one.take()
        other.ask(GetData("/e", watch=True))
        other.take()
        one.ask(GetData("/e", watch=True))
        one.ask(SetData("/", b""))
        assert one.attachment is not None
        one.attachment.close(lambda: one.told.append("closed"))
        self.assertEqual(other.take(), [])
        self.journal.flush()
        self.assertEqual(one.take(), ["NodeData", "Stat", (EventType.DELETED, "/e"), "closed"])
        self.assertEqual(other.take(), [(EventType.DELETED, "/e")])
        self.assertEqual(self.reattach(one).take(), ["no session"])
        self.assertEqual(self.host.connections, 1)

    def test_only_readers_are_told(self) -> None:
        """A watch does not tell those who may not read the node any more; the parent's watch follows its own list."""
        ann, bob = self.connect(), self.connect()
        assert ann.attachment is not None
        ann.attachment.authenticated(digest_identity(b"ann:secret"))
        ann.ask(Create("/p"))
        ann.ask(Create("/p/a"))
        self.journal.flush()
        for one in (ann, bob):
            one.ask(GetData("/p/a", watch=True))
            one.ask(GetChildren("/p", watch=True))
        ann.ask(SetAcl("/p/a", (Acl(31, "auth", ""),)))
        self.journal.flush()
        ann.take(), bob.take()
        ann.ask(Delete("/p/a"))
        self.journal.flush()
        gone, listed = (EventType.DELETED, "/p/a"), (EventType.CHILDREN, "/p")
        self.assertEqual((ann.take(), bob.take()), ([gone, listed, "NoneType"], [listed]))
        self.assertEqual(len(self.host.tree.watches.data), 0)

    def test_detach(self) -> None:
        """A connection that is lost leaves its session, not its watches."""
        one = self.connect()
        one.ask(Create("/e", ephemeral=True))
        one.ask(GetData("/", watch=True))
        self.journal.flush()
        assert one.attachment is not None
        one.attachment.detach()
        self.assertEqual(len(self.host.tree.watches.data), 0)
        self.assertIn("/e", self.host.tree.nodes)
        self.assertEqual(self.reattach(one).take(), ["attached"])

    def test_expiry(self) -> None:
        """A session of which nothing is heard ends with its timeout; one that is heard of lives on."""
        one, other = self.connect(2_000), self.connect(2_000)
        one.ask(Create("/e", ephemeral=True))
        self.journal.flush()
        one.take()
        other.ask(GetData("/e", watch=True))
        other.take()
        assert other.attachment is not None
        for _ in range(3):
            self.wait(1)
            other.attachment.heard()
        self.assertEqual((one.take(), other.take()), ([CutReason.EXPIRED], []))
        again = self.reattach(one)
        self.assertEqual(again.take(), [])
        self.journal.flush()
        self.assertEqual((again.take(), other.take()), (["no session"], [(EventType.DELETED, "/e")]))

    def test_standing_still(self) -> None:
        """Time in which the process did not run ends no session, however long it was."""
        one = self.connect(2_000)
        for _ in range(3):
            self.clock.advance(3_600)
            assert one.attachment is not None
            one.attachment.heard()
        self.assertEqual(one.take(), [])
        self.wait(3)
        self.assertEqual(one.take(), [CutReason.EXPIRED])

    def test_pending_reads_first(self) -> None:
        """Between finding a session due and ending it the reactor gets a turn, in which the client is heard."""
        one = self.connect(2_000)
        assert one.attachment is not None
        self.wait(1.75)
        # Behind the look at which the session is due, in the same turn: the ping was in the socket's buffer.
        self.clock.callLater(0.25, one.attachment.heard)
        self.wait(1)
        self.assertEqual(one.take(), [])

    def test_restart(self) -> None:
        """After a restart each session has its full timeout, and can be attached to by its password."""
        one = self.connect(2_000)
        self.wait(1.5)
        self.host.stop()
        self.assertEqual(one.take(), [CutReason.STOPPED])
        host = self.make_host(Tree.restore(TreeSnapshot(), self.journal.changes))
        self.wait(1.5)
        again = self.reattach(one, host)
        self.assertEqual(again.take(), ["attached"])
        self.wait(3)
        self.assertEqual(again.take(), [CutReason.EXPIRED])

    def test_stopped_and_started(self) -> None:
        """Watches end with the connection also where the host stops, and serves the same tree again."""
        one = self.connect()
        one.ask(Exists("/a", watch=True))
        self.host.stop()
        self.host.start()
        again = self.reattach(one)
        again.take()
        again.ask(Create("/a"))
        self.journal.flush()
        self.assertEqual(again.take(), ["Created"])

    def test_nobody_comes_back(self) -> None:
        """A session whose client does not come back after a restart ends with its timeout."""
        self.connect(2_000)
        self.host.stop()
        host = self.make_host(Tree.restore(TreeSnapshot(), self.journal.changes))
        self.wait(3)
        self.assertEqual(len(host.tree.sessions), 0)
