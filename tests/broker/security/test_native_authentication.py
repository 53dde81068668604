"""Tests of Authenticate at a broker: right, wrong, hostile, and users that change."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logd.broker.security.authentication import FAILURE_SECONDS
from logd.config.security import SecuritySettings
from logd.coord import paths
from logd.coord.registries.users import add_user, change_user, remove_user
from logd.net.server import Connection
from logd.protocol.requests.authenticate import Authenticate, AuthenticateResponse
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.metadata import Metadata
from logd.security.broker_identity import broker_password
from logd.security.scram import MECHANISMS, PLAIN, REFUSAL, ClientExchange
from logd.security.users import User
from tests.broker.rig import BrokerTestCase, Peer

FAILED = 118
INVALID = 113
#: Made once, as hashing takes a while.
ANN = User.of("ann", "secret", lambda size: bytes(range(size)))


class AuthenticationTestCase(BrokerTestCase):
    """A broker with the user ``ann``, whose password is ``secret``."""

    options = {"security": SecuritySettings(security_required=True, security_superusers="ann")}  # noqa: RUF012

    def setUp(self) -> None:
        """Add the user."""
        super().setUp()
        self.change(add_user, "ann", ANN)

    def change(self, change: Any, *details: Any) -> None:
        """Change users in the tree, and let the broker see that."""
        changing = Deferred.fromCoroutine(change(self.access.client, *details))
        self.settle()
        self.successResultOf(changing)

    def authenticate(
        self, user: str = "ann", password: str = "secret", mechanism: str = MECHANISMS[0], peer: Peer | None = None
    ) -> tuple[Peer, AuthenticateResponse]:
        """Run a whole exchange on a new connection; return it and the last answer, which may take a second."""
        peer = peer or self.connect()
        exchange = ClientExchange(mechanism, user, password)
        challenge = self.ask(peer, Authenticate(mechanism, exchange.first()))
        if challenge.error:
            return peer, challenge
        peer.send(Authenticate(mechanism, exchange.answer(challenge.data)))
        answer = self.late_answer(peer)
        if not answer.error:
            exchange.check(answer.data)
        return peer, answer

    def late_answer(self, peer: Peer) -> AuthenticateResponse:
        """Return an answer which, if it is a refusal, comes after a second and not before."""
        self.settle()
        answers = peer.answers()
        if not answers:
            self.clock.advance(FAILURE_SECONDS - 0.001)
            self.settle()
            self.assertEqual(peer.answers(), [])
            self.clock.advance(0.001)
            self.settle()
            answers = peer.answers()
        (answer,) = answers
        assert isinstance(answer, AuthenticateResponse)
        return answer

    def refused(self, peer: Peer, *requests: Any) -> None:
        """Check that the last of the requests is refused after a second, and the connection closed."""
        peer.send(*requests)
        answer = self.late_answer(peer)
        self.assertEqual((answer.error, answer.text), (FAILED, REFUSAL))
        peer.pump()
        self.assertTrue(peer.lost)


class NativeAuthenticationTests(AuthenticationTestCase):
    """One connection, or a few."""

    def test_a_user_is_known_by_the_password(self) -> None:
        """By both mechanisms; requests are then the user's."""
        for mechanism in MECHANISMS:
            peer, answer = self.authenticate(mechanism=mechanism)
            self.assertEqual((answer.error, answer.done), (0, True))
            session = list(self.broker.sessions)[-1]
            self.assertEqual(
                (session.requester.principal, session.requester.authenticated, session.requester.mechanism),
                ("ann", True, mechanism),
            )
            self.assertEqual(self.ask(peer, Metadata(None)).topics, ())

    def test_an_unknown_user_and_a_wrong_password_get_the_same_answer(self) -> None:
        """At the same time; the connection is closed."""
        seen = []
        for user, password in (("ann", "wrong"), ("bob", "secret"), ("logd-broker", "secret"), ("anonymous", "x")):
            peer, answer = self.authenticate(user, password)
            peer.pump()
            seen.append((answer, peer.lost))
        self.assertEqual(set(seen), {(AuthenticateResponse(FAILED, text=REFUSAL), True)})

    def test_the_challenge_for_a_user_that_does_not_exist_stays_the_same(self) -> None:
        """So does that for one that does."""
        for user in ("ann", "bob"):
            salts = set()
            for _ in range(2):
                answer = self.ask(self.connect(), Authenticate(MECHANISMS[0], f"n,,n={user},r=x".encode()))
                salts.add(answer.data.partition(b",s=")[2])
            self.assertEqual(len(salts), 1, user)

    def test_nothing_of_the_connection_is_taken_during_a_failed_attempt(self) -> None:
        """Requests behind it are dropped with the connection."""
        peer = self.connect()
        peer.send(Authenticate(MECHANISMS[0], b"nonsense"), Metadata(None))
        self.settle()
        self.assertEqual(peer.answers(), [])
        self.assertEqual([type(each) for each in self.answers_after_a_while(peer)], [AuthenticateResponse])

    def answers_after_a_while(self, peer: Peer) -> list[Any]:
        """Return the answers that come after the delay of a failure."""
        self.clock.advance(FAILURE_SECONDS)
        self.settle()
        return peer.answers()

    def test_requests_behind_the_proof_are_the_users(self) -> None:
        """Also in the same bytes."""
        exchange, peer = ClientExchange(MECHANISMS[0], "ann", "secret"), self.connect()
        challenge = self.ask(peer, Authenticate(MECHANISMS[0], exchange.first()))
        peer.send(Authenticate(MECHANISMS[0], exchange.answer(challenge.data)), Metadata(None))
        self.settle()
        self.assertEqual([each.error for each in peer.answers()[:1]], [0])
        (session,) = self.broker.sessions
        self.assertEqual(session.requester.principal, "ann")

    def test_wrong_exchanges_are_refused(self) -> None:
        """Truncated, replayed, out of order, of another mechanism half way, or of one that does not exist."""
        self.refused(self.connect(), Authenticate(MECHANISMS[0], b""))
        self.refused(self.connect(), Authenticate(MECHANISMS[0], b"c=biws,r=x,p=AAAA"))
        exchange, peer = ClientExchange(MECHANISMS[0], "ann", "secret"), self.connect()
        first = Authenticate(MECHANISMS[0], exchange.first())
        proof = Authenticate(MECHANISMS[0], exchange.answer(self.ask(peer, first).data))
        again = self.connect()
        self.ask(again, first)
        self.refused(again, proof)
        for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-1", "", "scram-sha-256", "ANONYMOUS", "EXTERNAL"):
            peer = self.connect()
            self.ask(peer, Authenticate(MECHANISMS[0], b"n,,n=ann,r=x"))
            peer.send(Authenticate(mechanism, b"n,,n=ann,r=x"))
            answer = self.late_answer(peer)
            self.assertEqual(answer.error, FAILED)

    def test_a_password_is_refused_outside_tls(self) -> None:
        """The right one too; the answer says what to do."""
        peer = self.connect()
        peer.send(Authenticate(PLAIN, b"\0ann\0secret"))
        answer = self.late_answer(peer)
        self.assertEqual(answer.error, FAILED)
        self.assertIn("TLS", answer.text)

    def test_a_password_is_accepted_inside_tls(self) -> None:
        """It is hashed on a thread, and the second time it is known."""
        self.patch(Connection, "encrypted", True)
        for expected in (1, 0):
            peer = self.connect()
            peer.send(Authenticate(PLAIN, b"\0ann\0secret"))
            self.assertEqual(len(self.reads.works), expected)
            self.settle()
            self.assertEqual(peer.answers(), [AuthenticateResponse(0, True)])
        for message in (
            b"\0ann\0wrong",
            b"\0bob\0secret",
            b"root\0ann\0secret",
            b"\0ann",
            b"\xff",
            b"\0ann\0" + b"x" * 9999,
        ):
            self.refused(self.connect(), Authenticate(PLAIN, message))

    def test_authenticate_comes_first(self) -> None:
        """After another request, and after success, it is refused: what the connection has begun is another's."""
        peer = self.connect()
        self.ask(peer, Metadata(("t",)))
        self.assertEqual(self.authenticate(peer=peer)[1].error, INVALID)
        peer, _ = self.authenticate()
        self.assertEqual(self.ask(peer, Authenticate(MECHANISMS[0], b"n,,n=ann,r=x")).error, INVALID)

    def test_brokers_know_each_other_by_their_secret(self) -> None:
        """The first broker has made it."""
        reading = self.access.client.get(paths.SECRET)
        self.settle()
        secret = self.successResultOf(reading)[0]
        self.assertEqual(len(secret), 32)
        _, answer = self.authenticate("logd-broker", broker_password(secret))
        self.assertTrue(answer.done)

    def test_a_connection_that_is_lost_leaves_no_timer(self) -> None:
        """Nor any other trace."""
        peer = self.connect()
        peer.send(Authenticate(MECHANISMS[0], b"nonsense"))
        self.settle()
        self.assertEqual(len(self.timers()), 1)
        peer.lose()
        self.assertEqual(self.timers(), [])

    def test_attempts_are_counted_and_logged_without_a_flood(self) -> None:
        """They stand in the log of administration, which names the user and bounds their number."""
        for _ in range(3):
            self.authenticate("ann", "wrong")
        self.assertEqual(self.broker.authentication.attempts, {(MECHANISMS[0], False): 3})
        lines = self.events.warnings("at 10.0.0.7: log in as 'ann'")
        self.assertEqual([line for line in lines if "wrong" in line], [])
        self.assertEqual(len(lines), 3)


class ChangedUserTests(AuthenticationTestCase):
    """Users that change while they are connected."""

    def test_a_user_that_is_removed_is_cut_off(self) -> None:
        """At once, waiting fetches included; others stay."""
        self.change(add_user, "bob", User.of("bob", "x", lambda size: bytes(size)))
        self.create("t")
        ann, _ = self.authenticate()
        bob, _ = self.authenticate("bob", "x")
        ann.send(FetchWait(60_000, 1, 1000, (FetchPart("t", 0, 0, 0, 100, True),)))
        self.settle()
        self.change(remove_user, "ann")
        self.assertEqual([each.transport.disconnecting or each.lost for each in (ann, bob)], [True, False])
        self.assertEqual(self.authenticate()[1].error, FAILED)

    def test_a_user_whose_password_changes_is_cut_off(self) -> None:
        """The new password works, the old one no more."""
        ann, _ = self.authenticate()
        self.change(change_user, "ann", User.of("ann", "new", lambda size: bytes(size)))
        self.assertTrue(ann.transport.disconnecting or ann.lost)
        self.assertEqual([self.authenticate("ann", each)[1].error for each in ("secret", "new")], [FAILED, 0])

    def test_a_remembered_password_is_forgotten_with_the_user(self) -> None:
        """Of a user inside TLS."""
        self.patch(Connection, "encrypted", True)
        peer = self.connect()
        peer.send(Authenticate(PLAIN, b"\0ann\0secret"))
        self.settle()
        self.assertEqual(peer.answers()[0].error, 0)
        self.change(remove_user, "ann")
        self.refused(self.connect(), Authenticate(PLAIN, b"\0ann\0secret"))

    def test_a_user_removed_while_the_password_is_hashed_is_refused(self) -> None:
        """Its hash was right."""
        self.patch(Connection, "encrypted", True)
        peer = self.connect()
        peer.send(Authenticate(PLAIN, b"\0ann\0secret"))
        deleting = self.access.client.delete(paths.user("ann"))
        for _ in range(20):
            self.clock.advance(0)
            self.tree_clock.advance(0)
        self.successResultOf(deleting)
        self.assertFalse(self.broker.authentication.has_users)
        answer = self.late_answer(peer)
        self.assertEqual(answer.error, FAILED)

    def test_an_exchange_that_began_before_a_change_does_not_end_as_the_user(self) -> None:
        """Somebody with the old password may keep one open until the user is removed, or has another password."""
        self.change(add_user, "bob", User.of("bob", "x", lambda size: bytes(size)))
        changes: tuple[tuple[Any, ...], ...] = (
            (change_user, "ann", User.of("ann", "new", lambda size: bytes(size))),
            (remove_user, "bob"),
        )
        for change, (user, password) in zip(changes, (("ann", "secret"), ("bob", "x")), strict=True):
            peer, exchange = self.connect(), ClientExchange(MECHANISMS[0], user, password)
            challenge = self.ask(peer, Authenticate(MECHANISMS[0], exchange.first()))
            self.change(*change)
            self.refused(peer, Authenticate(MECHANISMS[0], exchange.answer(challenge.data)))
        self.assertEqual(self.broker.authentication.attempts, {(MECHANISMS[0], False): 2})

    def test_a_node_that_is_no_user_does_not_open_the_cluster(self) -> None:
        """It is a user that nobody can be."""
        creating = self.access.client.create(paths.user("eve"), b"{}")
        self.settle()
        self.successResultOf(creating)
        self.change(remove_user, "ann")
        self.assertFalse(self.broker.authorizer.open)
        self.assertTrue(self.broker.authentication.has_users)
        self.assertEqual(self.authenticate("eve", "x")[1].error, FAILED)
        self.flushLoggedErrors()
