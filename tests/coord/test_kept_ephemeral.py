"""A presence: its node is there for as long as it is wanted."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from logd.coord.ephemeral import HeldElsewhere, create_ephemeral
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.coord.kept_ephemeral import KeptEphemeral
from tests.coord.hosted import HostedTestCase

PATH = "/brokers/ids/1"


class PresenceTests(HostedTestCase):
    """One presence, and a client that looks on."""

    def setUp(self) -> None:
        """Make it, without starting it."""
        super().setUp()
        self.ours = self.client()
        self.theirs = self.client()
        self.failures: list[Failure] = []
        self.presence = KeptEphemeral(self.clock, self.ours, PATH, b"me", failed=self.failures.append)

    def there(self) -> bytes | None:
        """What the node says; None where there is none."""
        if self.result(self.theirs.exists(PATH)) is None:
            return None
        return self.result(self.theirs.get(PATH))[0]

    def lose_session(self) -> None:
        """Let our session expire while we are cut off."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        self.host.expire(self.ours.session_id)
        self.turn()

    def test_start_and_stop(self) -> None:
        """The node is there when start fires, and gone when stop does."""
        self.assertIsNone(self.result(self.presence.start()))
        self.assertEqual(self.there(), b"me")
        self.assertIsNone(self.result(self.presence.stop()))
        self.assertIsNone(self.there())
        self.assertEqual(self.failures, [])

    def test_updated_as_soon_as_it_is_there(self) -> None:
        """A caller may change the data at the very moment that it is told of the node."""
        updated = self.presence.start().addCallback(lambda _: self.presence.update(b"more"))
        self.assertIsNone(self.result(updated))
        self.assertEqual(self.there(), b"more")

    def test_made_again_after_a_lost_session(self) -> None:
        """In the next session the node is created again, under that session."""
        self.result(self.presence.start())
        for _ in range(3):
            before = self.ours.session_id
            self.lose_session()
            self.assertIsNone(self.there())
            self.ours.link.reachable = True
            self.turn(3)
            self.assertNotEqual(self.ours.session_id, before)
            self.assertEqual(self.there(), b"me")
        stat = self.result(self.theirs.exists(PATH))
        assert stat is not None
        self.assertEqual(stat.ephemeral_owner, self.ours.session_id)
        self.assertEqual(self.failures, [])

    def test_kept_through_a_lost_connection(self) -> None:
        """A connection that drops changes nothing, and the node is watched again afterwards."""
        self.result(self.presence.start())
        self.ours.link.cut()
        self.turn(3)
        self.result(self.theirs.delete(PATH))
        self.assertEqual(self.there(), b"me")

    def test_made_again_when_deleted(self) -> None:
        """A node that somebody deletes is created again."""
        self.result(self.presence.start())
        self.result(self.theirs.delete(PATH))
        self.assertEqual(self.there(), b"me")

    def test_refused(self) -> None:
        """A place that is taken fails start, and nothing is kept."""
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        starting = self.presence.start()
        self.turn()
        self.failureResultOf(starting, HeldElsewhere)
        self.result(self.theirs.delete(PATH))
        self.turn(5)
        self.assertIsNone(self.there())

    def test_taken_while_the_session_was_lost(self) -> None:
        """A place that another took meanwhile is told, and taken back once it is free."""
        self.result(self.presence.start())
        self.lose_session()
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        self.ours.link.reachable = True
        self.turn(5)
        self.assertTrue(self.failures)
        self.assertTrue(all(failure.check(HeldElsewhere) for failure in self.failures))
        self.assertLess(len(self.failures), 8)
        self.result(self.theirs.delete(PATH))
        self.turn(3)
        self.assertEqual(self.there(), b"me")

    def test_a_listener_that_raises(self) -> None:
        """The node is kept although what is told of trouble raises."""

        def broken(failure: Failure) -> None:
            self.failures.append(failure)
            raise ValueError("a bug")

        self.presence = KeptEphemeral(self.clock, self.ours, PATH, b"me", failed=broken)
        self.result(self.presence.start())
        self.lose_session()
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        self.ours.link.reachable = True
        self.turn(5)
        self.assertTrue(self.failures)
        self.result(self.theirs.delete(PATH))
        self.turn(3)
        self.assertEqual(self.there(), b"me")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), len(self.failures))

    def test_update_of_what_is_not_kept(self) -> None:
        """Before the start, and after the end, nobody waits for ever."""
        self.failureResultOf(self.presence.update(b"early"), ClientClosing)
        self.result(self.presence.start())
        self.assertEqual(self.there(), b"early")
        self.result(self.presence.stop())
        self.failureResultOf(self.presence.update(b"late"), ClientClosing)

    def test_update(self) -> None:
        """The node says something else from then on, also in later sessions."""
        self.result(self.presence.start())
        self.assertIsNone(self.result(self.presence.update(b"more")))
        self.assertEqual(self.there(), b"more")
        self.lose_session()
        waiting = self.presence.update(b"most")
        self.turn()
        self.assertNoResult(waiting)
        self.ours.link.reachable = True
        self.turn(3)
        self.successResultOf(waiting)
        self.assertEqual(self.there(), b"most")

    def test_no_server(self) -> None:
        """Starting without a connection fails when the client's time is over; running, it just goes on."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        starting = self.presence.start()
        self.turn(11)
        self.failureResultOf(starting, OperationTimeout)

    def test_cancelled(self) -> None:
        """Cancelling start stops the whole."""
        starting = self.presence.start()
        starting.cancel()
        self.failureResultOf(starting, CancelledError)
        self.turn(5)
        self.assertEqual(self.clock.getDelayedCalls(), self.clock.getDelayedCalls())

    def test_stop_without_a_connection(self) -> None:
        """Stopping never fails; what waited for an update is told."""
        self.result(self.presence.start())
        self.ours.link.reachable = False
        self.ours.link.cut()
        waiting = self.presence.update(b"late")
        stopping = self.presence.stop(timeout=2)
        self.failureResultOf(waiting, ClientClosing)
        self.turn(3)
        self.successResultOf(stopping)

    def test_closed_client(self) -> None:
        """A client that is closed ends the presence without a word."""
        self.result(self.presence.start())
        self.close(self.ours)
        self.assertEqual(self.failures, [])
        self.assertIsNone(self.result(self.presence.stop()))
