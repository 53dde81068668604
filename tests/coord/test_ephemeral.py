"""Tests of logd.coord.ephemeral: an ephemeral node that exists already is ours, our earlier session's, or another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logd.coord.ephemeral import ATTEMPTS, HeldElsewhere, create_ephemeral, release_ephemeral
from logd.coord.errors import BadVersion, ClientClosing, ConnectionLoss, OperationTimeout, SessionExpired
from logd.coord.records import SessionState
from tests.coord.rig import TreeClientTestCase

PATH = "/consumers/g/owners/t/0"


class CreateEphemeralTests(TreeClientTestCase):
    """Two clients at one node."""

    def setUp(self) -> None:
        """Connect our client, and theirs."""
        super().setUp()
        self.ours = self.client()
        self.theirs = self.client()

    def test_a_missing_node_is_made_under_our_session(self) -> None:
        """Its parents are made too, and are not ephemeral."""
        self.assertIsNone(self.result(create_ephemeral(self.ours, PATH, b"us")))
        data, stat = self.result(self.ours.get(PATH))
        self.assertEqual((data, stat.ephemeral_owner), (b"us", self.ours.session_id))
        parent = self.result(self.ours.exists("/consumers/g/owners/t"))
        assert parent is not None
        self.assertEqual(parent.ephemeral_owner, 0)

    def test_a_node_of_our_session_is_ours(self) -> None:
        """Its data are replaced only where they differ."""
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.assertEqual(self.result(self.ours.get(PATH))[1].version, 0)
        self.result(create_ephemeral(self.ours, PATH, b"new"))
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"new")

    def test_another_sessions_node_is_an_error(self) -> None:
        """The error names the session and has the node's data; the node stays as it is."""
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        refused = create_ephemeral(self.ours, PATH, b"us")
        self.turn()
        error = self.failureResultOf(refused, HeldElsewhere).value
        self.assertEqual((error.data, error.stat.ephemeral_owner), (b"them", self.theirs.session_id))
        self.assertIn(f"0x{self.theirs.session_id:x}", str(error))
        self.assertEqual(error.path, PATH)
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"them")

    def test_our_data_under_an_earlier_session_are_replaced(self) -> None:
        """The node is deleted, and made again under this session."""
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.assertEqual(self.result(self.ours.get(PATH))[1].ephemeral_owner, self.ours.session_id)

    def test_the_caller_may_recognise_its_earlier_node(self) -> None:
        """A consumer knows its entry by its uuid, although its topics have changed."""
        self.result(create_ephemeral(self.theirs, PATH, b"uuid=1 topics=a"))
        self.result(create_ephemeral(self.ours, PATH, b"uuid=1 topics=b", same=lambda data: b"uuid=1" in data))
        data, stat = self.result(self.ours.get(PATH))
        self.assertEqual((data, stat.ephemeral_owner), (b"uuid=1 topics=b", self.ours.session_id))

    def test_a_persistent_node_is_never_ours(self) -> None:
        """No session would end it, even if it has our data."""
        self.result(self.theirs.create(PATH, b"us", makepath=True))
        refused = create_ephemeral(self.ours, PATH, b"us")
        self.turn()
        self.assertIn("not ephemeral", str(self.failureResultOf(refused, HeldElsewhere).value))

    def test_a_node_whose_answer_was_lost_is_ours(self) -> None:
        """It is found under our session, and is not touched."""
        self.result(create_ephemeral(self.ours, PATH, b"before"))
        self.result(self.ours.delete(PATH))
        making = create_ephemeral(self.ours, PATH, b"us")
        self.clock.advance(0.011)  # it has arrived; the answer is under way
        self.ours.link.cut()
        self.assertIs(self.ours.state, SessionState.SUSPENDED)
        self.assertIsNone(self.result(making))
        data, stat = self.result(self.ours.get(PATH))
        self.assertEqual((data, stat.version, stat.ephemeral_owner), (b"us", 0, self.ours.session_id))

    def test_a_lost_request_is_made_again(self) -> None:
        """It is sent on the next connection."""
        making = create_ephemeral(self.ours, PATH, b"us")
        self.ours.link.cut()
        self.assertIsNone(self.result(making))
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"us")

    def test_a_session_that_ends_claims_nothing_in_the_next(self) -> None:
        """The caller is told, and decides what to claim anew."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        making = create_ephemeral(self.ours, PATH, b"us", timeout=60)
        self.host.expire(self.ours.session_id)
        self.ours.link.reachable = True
        self.turn()
        self.failureResultOf(making, SessionExpired)
        self.assertIsNone(self.result(self.theirs.exists(PATH)))

    def test_a_create_without_connection_fails_in_time(self) -> None:
        """Its caller gets OperationTimeout."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        making = create_ephemeral(self.ours, PATH, b"us", timeout=2)
        self.turn(3)
        self.failureResultOf(making, OperationTimeout)

    def test_a_cancel_or_a_close_fails_the_create(self) -> None:
        """The caller gets the error of the one or of the other."""
        making = create_ephemeral(self.ours, PATH, b"us")
        making.cancel()
        self.failureResultOf(making, CancelledError)
        closing = create_ephemeral(self.ours, PATH, b"us")
        self.close(self.ours)
        self.failureResultOf(closing, ClientClosing)


class RaceTests(TreeClientTestCase):
    """Another client acts between two of our steps."""

    def setUp(self) -> None:
        """Connect our client, and theirs."""
        super().setUp()
        self.ours = self.client()
        self.theirs = self.client()

    def before(self, name: str, act: Callable[[], Deferred[Any]], times: int = 1) -> None:
        """Have ``act`` done before our call ``name`` is sent, the first ``times`` times."""
        inner, left = getattr(self.ours, name), [times]

        def call(*args: Any, **options: Any) -> Deferred[Any]:
            if not left[0]:
                return inner(*args, **options)  # type: ignore[no-any-return]
            left[0] -= 1
            return act().addBoth(lambda _: inner(*args, **options))

        setattr(self.ours, name, call)

    def test_a_node_that_goes_before_it_is_read_is_made(self) -> None:
        """It was in the way of the create, and is gone when it is looked at."""
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        self.before("get", lambda: self.theirs.delete(PATH))
        self.assertIsNone(self.result(create_ephemeral(self.ours, PATH, b"us")))
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"us")

    def test_a_node_that_changes_before_the_delete_is_kept(self) -> None:
        """It is looked at again, and belongs to another now."""
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.before("delete", lambda: self.theirs.set(PATH, b"them"))
        making = create_ephemeral(self.ours, PATH, b"us")
        self.turn()
        self.failureResultOf(making, HeldElsewhere)
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"them")

    def test_a_node_that_changes_each_time_is_given_up(self) -> None:
        """No more than ATTEMPTS are made."""
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.before("delete", lambda: self.theirs.set(PATH, b"us"), times=1000)
        making = create_ephemeral(self.ours, PATH, b"us")
        self.turn(5)
        self.failureResultOf(making, BadVersion)
        self.assertEqual(self.result(self.ours.get(PATH))[1].version, ATTEMPTS)

    def test_a_connection_that_is_lost_each_time_is_given_up(self) -> None:
        """No more than ATTEMPTS are made."""
        tries = []

        def lose(*args: Any, **options: Any) -> Deferred[Any]:
            tries.append(args)
            making: Deferred[Any] = Deferred()
            making.errback(ConnectionLoss(path=PATH))
            return making

        self.ours.create = lose  # type: ignore[method-assign]
        self.failureResultOf(create_ephemeral(self.ours, PATH, b"us"), ConnectionLoss)
        self.assertEqual(len(tries), ATTEMPTS)


class ReleaseEphemeralTests(TreeClientTestCase):
    """Deleting our own ephemeral node, and no other."""

    def setUp(self) -> None:
        """Connect our client, and theirs."""
        super().setUp()
        self.ours = self.client()
        self.theirs = self.client()

    def test_our_node_is_deleted(self) -> None:
        """The answer is True, since the node was ours."""
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.assertTrue(self.result(release_ephemeral(self.ours, PATH)))
        self.assertIsNone(self.result(self.ours.exists(PATH)))

    def test_another_sessions_node_is_left_alone(self) -> None:
        """A node that does not exist is no error either."""
        self.assertFalse(self.result(release_ephemeral(self.ours, PATH)))
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.assertFalse(self.result(release_ephemeral(self.ours, PATH)))
        self.assertIsNotNone(self.result(self.ours.exists(PATH)))

    def test_a_release_looks_again_after_a_lost_reply(self) -> None:
        """The node is gone, and the answer says that it was not deleted now."""
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        releasing = release_ephemeral(self.ours, PATH)
        for _ in range(3):
            self.clock.advance(0.011)
        self.ours.link.cut()
        self.assertFalse(self.result(releasing))
        self.assertIsNone(self.result(self.ours.exists(PATH)))
