"""Tests of logd.coord.kept_ephemeral: a node that is there for as long as its owner wants it."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from logd.coord.ephemeral import HeldElsewhere, create_ephemeral
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.coord.kept_ephemeral import KeptEphemeral
from tests.coord.rig import TreeClientTestCase

PATH = "/brokers/ids/1"


class KeptEphemeralTests(TreeClientTestCase):
    """One kept node, and a client that looks on."""

    def setUp(self) -> None:
        """Make the kept node, without starting it."""
        super().setUp()
        self.ours = self.client()
        self.theirs = self.client()
        self.failures: list[Failure] = []
        self.again = 0
        self.kept = KeptEphemeral(
            self.clock, self.ours, PATH, b"me", failed=self.failures.append, made_again=self._made_again
        )

    def _made_again(self) -> None:
        self.again += 1

    def there(self) -> bytes | None:
        """Return the node's data; None where there is no node."""
        if self.result(self.theirs.exists(PATH)) is None:
            return None
        return self.result(self.theirs.get(PATH))[0]

    def lose_session(self) -> None:
        """Let our session expire while we are cut off."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        self.host.expire(self.ours.session_id)
        self.turn()

    def test_the_node_is_there_from_start_to_stop(self) -> None:
        """It exists when start fires, and is gone when stop does."""
        self.assertIsNone(self.result(self.kept.start()))
        self.assertEqual(self.there(), b"me")
        self.assertIsNone(self.result(self.kept.stop()))
        self.assertIsNone(self.there())
        self.assertEqual(self.failures, [])

    def test_the_data_can_be_changed_once_start_fires(self) -> None:
        """A caller may do so in start's own callback."""
        updated = self.kept.start().addCallback(lambda _: self.kept.update(b"more"))
        self.assertIsNone(self.result(updated))
        self.assertEqual(self.there(), b"more")

    def test_the_node_is_made_again_in_the_next_session(self) -> None:
        """The session is lost three times, and each node is of the new one; that is told."""
        self.result(self.kept.start())
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
        self.assertEqual((self.failures, self.again), ([], 3))

    def test_a_lost_connection_changes_nothing(self) -> None:
        """The node is watched again afterwards."""
        self.result(self.kept.start())
        self.ours.link.cut()
        self.turn(3)
        self.result(self.theirs.delete(PATH))
        self.assertEqual(self.there(), b"me")

    def test_a_node_that_is_deleted_is_made_again(self) -> None:
        """An operator's mistake costs a broker its place for a moment only."""
        self.result(self.kept.start())
        self.result(self.theirs.delete(PATH))
        self.assertEqual(self.there(), b"me")

    def test_a_place_that_is_taken_fails_the_start(self) -> None:
        """Nothing is kept: the place stays empty when it becomes free."""
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        starting = self.kept.start()
        self.turn()
        self.failureResultOf(starting, HeldElsewhere)
        self.result(self.theirs.delete(PATH))
        self.turn(5)
        self.assertIsNone(self.there())

    def test_a_place_taken_meanwhile_is_taken_back_once_free(self) -> None:
        """The owner is told of the failures, and not without end."""
        self.result(self.kept.start())
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

    def test_a_listener_that_raises_does_not_end_the_keeping(self) -> None:
        """Its error is logged each time."""

        def broken(failure: Failure) -> None:
            self.failures.append(failure)
            raise ValueError("a bug")

        self.kept = KeptEphemeral(self.clock, self.ours, PATH, b"me", failed=broken)
        self.result(self.kept.start())
        self.lose_session()
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        self.ours.link.reachable = True
        self.turn(5)
        self.assertTrue(self.failures)
        self.result(self.theirs.delete(PATH))
        self.turn(3)
        self.assertEqual(self.there(), b"me")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), len(self.failures))

    def test_an_update_fails_while_the_node_is_not_kept(self) -> None:
        """No caller waits for ever; data given before the start are used by it."""
        self.failureResultOf(self.kept.update(b"early"), ClientClosing)
        self.result(self.kept.start())
        self.assertEqual(self.there(), b"early")
        self.result(self.kept.stop())
        self.failureResultOf(self.kept.update(b"late"), ClientClosing)

    def test_an_update_lasts_through_later_sessions(self) -> None:
        """An update while the session is lost waits for the next one."""
        self.result(self.kept.start())
        self.assertIsNone(self.result(self.kept.update(b"more")))
        self.assertEqual(self.there(), b"more")
        self.lose_session()
        waiting = self.kept.update(b"most")
        self.turn()
        self.assertNoResult(waiting)
        self.ours.link.reachable = True
        self.turn(3)
        self.successResultOf(waiting)
        self.assertEqual(self.there(), b"most")

    def test_a_start_without_a_server_times_out(self) -> None:
        """It fails after the client's operation timeout."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        starting = self.kept.start()
        self.turn(11)
        self.failureResultOf(starting, OperationTimeout)

    def test_cancelling_the_start_stops_everything(self) -> None:
        """No node is made behind a caller that has given up, and nothing is kept."""
        starting = self.kept.start()
        starting.cancel()
        self.failureResultOf(starting, CancelledError)
        self.turn(5)
        self.assertIsNone(self.there())
        self.failureResultOf(self.kept.update(b"late"), ClientClosing)

    def test_a_stop_without_connection_still_ends(self) -> None:
        """An update that waits fails."""
        self.result(self.kept.start())
        self.ours.link.reachable = False
        self.ours.link.cut()
        waiting = self.kept.update(b"late")
        stopping = self.kept.stop(timeout=2)
        self.failureResultOf(waiting, ClientClosing)
        self.turn(3)
        self.successResultOf(stopping)

    def test_closing_the_client_ends_the_keeping_silently(self) -> None:
        """No failure is told: the owner asked for it."""
        self.result(self.kept.start())
        self.close(self.ours)
        self.assertEqual(self.failures, [])
        self.assertIsNone(self.result(self.kept.stop()))
