"""Ephemeral nodes: which node that is found counts as one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logd.coord.ephemeral import ATTEMPTS, HeldElsewhere, create_ephemeral, release_ephemeral
from logd.coord.errors import BadVersion, ClientClosing, ConnectionLoss, OperationTimeout, SessionExpired
from logd.coord.records import SessionState
from tests.coord.hosted import HostedTestCase

PATH = "/consumers/g/owners/t/0"


class CreateTests(HostedTestCase):
    """Two clients at one node."""

    def setUp(self) -> None:
        """Make them."""
        super().setUp()
        self.ours = self.client()
        self.theirs = self.client()

    def test_made(self) -> None:
        """Where there is nothing the node is made, with its parents, under our session."""
        self.assertIsNone(self.result(create_ephemeral(self.ours, PATH, b"us")))
        data, stat = self.result(self.ours.get(PATH))
        self.assertEqual((data, stat.ephemeral_owner), (b"us", self.ours.session_id))
        parent = self.result(self.ours.exists("/consumers/g/owners/t"))
        assert parent is not None
        self.assertEqual(parent.ephemeral_owner, 0)

    def test_found_as_ours(self) -> None:
        """A node of our session is ours; its data are replaced where they differ."""
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.assertEqual(self.result(self.ours.get(PATH))[1].version, 0)
        self.result(create_ephemeral(self.ours, PATH, b"new"))
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"new")

    def test_somebody_elses(self) -> None:
        """Another's node is an error that names both the session and what it says; it stays as it is."""
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        refused = create_ephemeral(self.ours, PATH, b"us")
        self.turn()
        error = self.failureResultOf(refused, HeldElsewhere).value
        self.assertEqual((error.data, error.stat.ephemeral_owner), (b"them", self.theirs.session_id))
        self.assertIn(f"0x{self.theirs.session_id:x}", str(error))
        self.assertEqual(error.path, PATH)
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"them")

    def test_our_past(self) -> None:
        """Our data under another session are of our past: deleted, and created again under this one."""
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.assertEqual(self.result(self.ours.get(PATH))[1].ephemeral_owner, self.ours.session_id)

    def test_our_past_by_its_identity(self) -> None:
        """What of other data is of our past is for the caller to say."""
        self.result(create_ephemeral(self.theirs, PATH, b"uuid=1 topics=a"))
        self.result(create_ephemeral(self.ours, PATH, b"uuid=1 topics=b", same=lambda data: b"uuid=1" in data))
        data, stat = self.result(self.ours.get(PATH))
        self.assertEqual((data, stat.ephemeral_owner), (b"uuid=1 topics=b", self.ours.session_id))

    def test_persistent(self) -> None:
        """A node that is not ephemeral is somebody else's, even with our data."""
        self.result(self.theirs.create(PATH, b"us", makepath=True))
        refused = create_ephemeral(self.ours, PATH, b"us")
        self.turn()
        self.assertIn("not ephemeral", str(self.failureResultOf(refused, HeldElsewhere).value))

    def test_lost_reply(self) -> None:
        """The node was made and the answer lost: found under our session, it is ours and untouched."""
        self.result(create_ephemeral(self.ours, PATH, b"before"))
        self.result(self.ours.delete(PATH))
        making = create_ephemeral(self.ours, PATH, b"us")
        self.clock.advance(0.011)  # it has arrived; the answer is under way
        self.ours.link.cut()
        self.assertIs(self.ours.state, SessionState.SUSPENDED)
        self.assertIsNone(self.result(making))
        data, stat = self.result(self.ours.get(PATH))
        self.assertEqual((data, stat.version, stat.ephemeral_owner), (b"us", 0, self.ours.session_id))

    def test_lost_request(self) -> None:
        """The request was lost: it is made on the next connection."""
        making = create_ephemeral(self.ours, PATH, b"us")
        self.ours.link.cut()
        self.assertIsNone(self.result(making))
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"us")

    def test_session_lost_meanwhile(self) -> None:
        """A session that ends meanwhile is the caller's to know: nothing is claimed in the next one."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        making = create_ephemeral(self.ours, PATH, b"us", timeout=60)
        self.host.expire(self.ours.session_id)
        self.ours.link.reachable = True
        self.turn()
        self.failureResultOf(making, SessionExpired)
        self.assertIsNone(self.result(self.theirs.exists(PATH)))

    def test_out_of_time(self) -> None:
        """Without a connection it fails when its time is over."""
        self.ours.link.reachable = False
        self.ours.link.cut()
        making = create_ephemeral(self.ours, PATH, b"us", timeout=2)
        self.turn(3)
        self.failureResultOf(making, OperationTimeout)

    def test_cancelled_and_closed(self) -> None:
        """It can be cancelled; a client that is closed fails it."""
        making = create_ephemeral(self.ours, PATH, b"us")
        making.cancel()
        self.failureResultOf(making, CancelledError)
        closing = create_ephemeral(self.ours, PATH, b"us")
        self.close(self.ours)
        self.failureResultOf(closing, ClientClosing)


class RaceTests(HostedTestCase):
    """Somebody else acts between our steps."""

    def setUp(self) -> None:
        """Make two clients; ``interfere`` is run before our n-th step of a kind."""
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

    def test_gone_before_it_is_read(self) -> None:
        """The node that was in the way is gone when it is looked at: made."""
        self.result(create_ephemeral(self.theirs, PATH, b"them"))
        self.before("get", lambda: self.theirs.delete(PATH))
        self.assertIsNone(self.result(create_ephemeral(self.ours, PATH, b"us")))
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"us")

    def test_changed_before_it_is_deleted(self) -> None:
        """A node that changed since it was read is not deleted: it is looked at again."""
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.before("delete", lambda: self.theirs.set(PATH, b"them"))
        making = create_ephemeral(self.ours, PATH, b"us")
        self.turn()
        self.failureResultOf(making, HeldElsewhere)
        self.assertEqual(self.result(self.ours.get(PATH))[0], b"them")

    def test_endless_race(self) -> None:
        """A node that changes each time is given up after ATTEMPTS."""
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.before("delete", lambda: self.theirs.set(PATH, b"us"), times=1000)
        making = create_ephemeral(self.ours, PATH, b"us")
        self.turn(5)
        self.failureResultOf(making, BadVersion)
        self.assertEqual(self.result(self.ours.get(PATH))[1].version, ATTEMPTS)

    def test_connection_lost_each_time(self) -> None:
        """A connection that is lost at each step is given up after ATTEMPTS."""
        self.before("create", lambda: Deferred.fromCoroutine(self._cut()), times=0)
        tries = []

        def lose(*args: Any, **options: Any) -> Deferred[Any]:
            tries.append(args)
            making: Deferred[Any] = Deferred()
            making.errback(ConnectionLoss(path=PATH))
            return making

        self.ours.create = lose  # type: ignore[method-assign]
        self.failureResultOf(create_ephemeral(self.ours, PATH, b"us"), ConnectionLoss)
        self.assertEqual(len(tries), ATTEMPTS)

    async def _cut(self) -> None:
        self.ours.link.cut()


class ReleaseTests(HostedTestCase):
    """Letting go."""

    def setUp(self) -> None:
        """Make two clients."""
        super().setUp()
        self.ours = self.client()
        self.theirs = self.client()

    def test_released(self) -> None:
        """Our node is deleted, and the answer says so."""
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        self.assertTrue(self.result(release_ephemeral(self.ours, PATH)))
        self.assertIsNone(self.result(self.ours.exists(PATH)))

    def test_not_ours(self) -> None:
        """What is not there, or another's, is left alone."""
        self.assertFalse(self.result(release_ephemeral(self.ours, PATH)))
        self.result(create_ephemeral(self.theirs, PATH, b"us"))
        self.assertFalse(self.result(release_ephemeral(self.ours, PATH)))
        self.assertIsNotNone(self.result(self.ours.exists(PATH)))

    def test_lost_reply(self) -> None:
        """A reply that is lost makes it look again."""
        self.result(create_ephemeral(self.ours, PATH, b"us"))
        releasing = release_ephemeral(self.ours, PATH)
        for _ in range(3):
            self.clock.advance(0.011)
        self.ours.link.cut()
        self.assertFalse(self.result(releasing))
        self.assertIsNone(self.result(self.ours.exists(PATH)))
