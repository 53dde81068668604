"""Tests of logd.coord.tree.tree_host: the order of answers and events, and their wait for the journal."""

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
from logd.coord.tree.tree_host import TreeHost
from tests.coord.tree.doubles import Listener
from tests.coord.tree.rig import HostTestCase


class HoldingBackTests(HostTestCase):
    """Nothing is told before the changes that it shows are flushed."""

    def test_a_change_is_answered_when_it_is_flushed(self) -> None:
        """The tree has it at once."""
        one = self.connect()
        one.ask(Create("/a"))
        self.assertIn("/a", self.host.tree.nodes)
        self.assertEqual((one.take(), self.host.held_back), ([], 1))
        self.journal.flush()
        self.assertEqual((one.take(), self.host.held_back), (["Created"], 0))

    def test_a_read_of_an_unflushed_change_waits(self) -> None:
        """Another session waits too, since a crash could take back what it has seen."""
        one, other = self.connect(), self.connect()
        one.ask(Create("/a"))
        other.ask(GetData("/a"))
        self.assertEqual(other.take(), [])
        self.journal.flush()
        self.assertEqual(other.take(), ["NodeData"])

    def test_a_read_is_answered_at_once_while_all_is_flushed(self) -> None:
        """The answer comes before the call returns."""
        one = self.connect()
        one.ask(GetData("/"))
        self.assertEqual(one.take(), ["NodeData"])

    def test_a_flush_releases_the_answers_up_to_it(self) -> None:
        """Later answers wait for the next flush."""
        one = self.connect()
        for request in (Create("/a"), GetData("/a"), Create("/b"), GetData("/b")):
            one.ask(request)
        self.journal.flush(1)
        self.assertEqual(one.take(), ["Created", "NodeData"])
        self.journal.flush(1)
        self.assertEqual(one.take(), ["Created", "NodeData"])

    def test_an_error_waits_for_the_flush_too(self) -> None:
        """It shows that a node exists."""
        one, other = self.connect(), self.connect()
        one.ask(Create("/a"))
        other.ask(Create("/a"))
        self.assertEqual(other.take(), [])
        self.journal.flush()
        self.assertEqual(other.take(), ["NodeExists"])

    def test_a_watch_fires_when_its_change_is_flushed(self) -> None:
        """Any answer that shows the change comes behind the event."""
        one, other = self.connect(), self.connect()
        other.ask(Exists("/a", watch=True))
        other.take()
        one.ask(Create("/a"))
        other.ask(GetData("/a"))
        self.assertEqual(other.take(), [])
        self.journal.flush()
        self.assertEqual(other.take(), [(EventType.CREATED, "/a"), "NodeData"])

    def test_a_sessions_own_watch_fires_first(self) -> None:
        """The answer to its change comes behind the event."""
        one = self.connect()
        one.ask(GetData("/", watch=True))
        one.ask(SetData("/", b""))
        self.journal.flush()
        self.assertEqual(one.take(), ["NodeData", (EventType.CHANGED, "/"), "Stat"])

    def test_a_listener_that_raises_keeps_no_other_waiting(self) -> None:
        """The error is raised when all were told."""
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

    def test_a_node_has_the_time_of_day(self) -> None:
        """The clock, by which sessions expire, may be far from it: it does not go along when the day's time is set."""
        self.host = TreeHost(Tree(), self.journal, self.clock, self.password, wall=lambda: 5.5)
        self.host.start()
        self.connect().ask(Create("/a"))
        self.assertEqual(self.host.tree.stat("/a").created_ms, 5500)

    def test_a_request_made_while_told_is_answered_afterwards(self) -> None:
        """Everything that was due before it comes first."""
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

    def test_requests_made_in_answers_make_no_recursion(self) -> None:
        """Each of five thousand is made in the answer to the one before."""
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

    def test_a_journal_that_fails_cuts_every_connection(self) -> None:
        """Nothing unflushed is told, and nothing is served any more."""
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


class SessionTests(HostTestCase):
    """Sessions that are opened, moved, ended and expired."""

    def test_a_session_is_granted_once_it_is_flushed(self) -> None:
        """Its timeout is within the limits, and its password does not show in a log."""
        listener = Listener()
        self.host.open_session(listener, 1, (), listener.attached)
        self.assertEqual(listener.take(), [])
        self.journal.flush()
        self.assertEqual(listener.take(), ["attached"])
        assert listener.attachment is not None
        self.assertEqual(listener.attachment.session.timeout_ms, 1_000)
        self.assertEqual(len(listener.attachment.session.password), 16)
        self.assertNotIn("password", repr(listener.attachment.session))

    def test_a_session_moves_to_its_newest_connection(self) -> None:
        """The old one is let go, with its watches and the answers due to it."""
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

    def test_a_wrong_password_gets_no_session(self) -> None:
        """The owner is not disturbed."""
        old, listener = self.connect(), Listener()
        assert old.attachment is not None
        self.host.attach(listener, old.attachment.session.id, b"x" * 16, (), listener.attached)
        self.host.attach(listener, 77, b"x" * 16, (), listener.attached)
        self.assertEqual((listener.take(), old.take()), (["no session", "no session"], []))

    def test_a_closed_session_ends_behind_its_answers(self) -> None:
        """It ends once that is flushed, and is told of its own nodes' end first."""
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

    def test_a_watch_tells_readers_only(self) -> None:
        """A client that may not read the node any more hears of the parent's list alone."""
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

    def test_a_lost_connection_leaves_the_session(self) -> None:
        """The watches of the connection are forgotten."""
        one = self.connect()
        one.ask(Create("/e", ephemeral=True))
        one.ask(GetData("/", watch=True))
        self.journal.flush()
        assert one.attachment is not None
        one.attachment.detach()
        self.assertEqual(len(self.host.tree.watches.data), 0)
        self.assertIn("/e", self.host.tree.nodes)
        self.assertEqual(self.reattach(one).take(), ["attached"])

    def test_a_silent_session_expires(self) -> None:
        """One that is heard of lives on."""
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

    def test_a_standstill_expires_no_session(self) -> None:
        """The process did not run for three hours, which is no client's fault."""
        one = self.connect(2_000)
        for _ in range(3):
            self.clock.advance(3_600)
            assert one.attachment is not None
            one.attachment.heard()
        self.assertEqual(one.take(), [])
        self.wait(3)
        self.assertEqual(one.take(), [CutReason.EXPIRED])

    def test_a_ping_in_the_buffer_saves_a_session(self) -> None:
        """The reactor gets a turn between finding the session due and ending it."""
        one = self.connect(2_000)
        assert one.attachment is not None
        self.wait(1.75)
        # Behind the look at which the session is due, in the same turn: the ping was in the socket's buffer.
        self.clock.callLater(0.25, one.attachment.heard)
        self.wait(1)
        self.assertEqual(one.take(), [])

    def test_a_restart_gives_each_session_its_full_timeout(self) -> None:
        """It can be attached to by its password."""
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

    def test_watches_end_when_the_host_stops(self) -> None:
        """A client that comes back to the same tree has to leave them again."""
        one = self.connect()
        one.ask(Exists("/a", watch=True))
        self.host.stop()
        self.host.start()
        again = self.reattach(one)
        again.take()
        again.ask(Create("/a"))
        self.journal.flush()
        self.assertEqual(again.take(), ["Created"])

    def test_a_session_whose_client_stays_away_expires(self) -> None:
        """It ends with its timeout after a restart."""
        self.connect(2_000)
        self.host.stop()
        host = self.make_host(Tree.restore(TreeSnapshot(), self.journal.changes))
        self.wait(3)
        self.assertEqual(len(host.tree.sessions), 0)
