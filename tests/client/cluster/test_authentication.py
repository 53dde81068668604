"""Tests of the authentication of a client's connections, before they are used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.cluster.authentication import authenticating_connect
from logd.client.cluster.link import BrokerLink, ClientConnection
from logd.client.settings import LinkSettings
from logd.errors import AuthenticationFailed, BrokerUnavailable, ConfigurationError, CoordinationUnavailable
from logd.protocol.requests.authenticate import Authenticate, AuthenticateResponse
from logd.protocol.requests.responses import ErrorResponse
from logd.security.credentials import Credentials
from logd.security.scram import LEAST_ITERATIONS, ServerExchange, Verifier

VERIFIER = Verifier.of("SCRAM-SHA-256", "secret", b"salt of 16 bytes", LEAST_ITERATIONS)


@define(eq=False)
class BrokerDouble:
    """A connection to a broker that answers Authenticate by ``answer``, by default as a broker does."""

    answer: Callable[[Authenticate], Any] | None = None
    aborted: bool = False
    asked: list[Any] = field(factory=list)
    exchange: ServerExchange = field(factory=lambda: ServerExchange("SCRAM-SHA-256", lambda name: VERIFIER))
    lost: Deferred[BaseException] = field(factory=Deferred)
    writable: bool = True
    heard: bool = True

    def request(self, request: Any) -> Deferred[Any]:
        """See ClientConnection."""
        self.asked.append(request)
        if self.answer is not None:
            found = self.answer(request)
            return found if isinstance(found, Deferred) else succeed(found)
        data = self.exchange.receive(request.data)
        return succeed(AuthenticateResponse(0, self.exchange.done, data))

    def abort(self) -> None:
        """See ClientConnection."""
        self.aborted = True

    def when_lost(self) -> Deferred[BaseException]:
        """See ClientConnection."""
        return self.lost


def answering(response: Any) -> Callable[[Authenticate], Any]:
    """Return the function of a broker that always answers this."""
    return lambda request: response


def _reach(connection: Any, address: object) -> Deferred[Any]:
    return succeed(connection)


class AuthenticatingTests(SynchronousTestCase):
    """The exchange that comes before everything else."""

    def setUp(self) -> None:
        """Make a clock."""
        self.clock = Clock()

    def connect(self, broker: BrokerDouble, password: str = "secret") -> Deferred[ClientConnection]:
        """Connect as ann."""
        connection: Any = broker
        connect = authenticating_connect(
            lambda address: succeed(connection), lambda: Credentials("ann", password), self.clock, 5.0
        )
        return connect(("127.0.0.1", 1))

    def test_a_connection_is_handed_over_once_it_is_the_users(self) -> None:
        """After two requests."""
        broker = BrokerDouble()
        self.assertIs(self.successResultOf(self.connect(broker)), broker)
        self.assertEqual((len(broker.asked), broker.exchange.done, broker.aborted), (2, True, False))

    def test_nobody_sends_nothing(self) -> None:
        """A function that names nobody changes nothing."""
        broker: Any = BrokerDouble()
        connect = authenticating_connect(lambda address: succeed(broker), lambda: None, self.clock, 5.0)
        self.assertIs(self.successResultOf(connect("x")), broker)
        self.assertEqual(broker.asked, [])

    def test_a_broker_that_accepts_everybody_is_refused(self) -> None:
        """Without a proof of its own, at either step; the connection is closed."""

        def at_once(request: Authenticate) -> AuthenticateResponse:
            return AuthenticateResponse(0, True)

        def late(request: Authenticate) -> AuthenticateResponse:
            challenge = request.data.startswith(b"n,,")
            return AuthenticateResponse(
                0, not challenge, broker.exchange.receive(request.data) if challenge else b"v=AAAA"
            )

        for answer in (at_once, late):
            broker = BrokerDouble(answer)
            self.failureResultOf(self.connect(broker), AuthenticationFailed)
            self.assertTrue(broker.aborted)

    def test_refusals_name_the_user_and_not_the_password(self) -> None:
        """In both forms of a refusal."""
        for response in (AuthenticateResponse(118, text="it is wrong"), ErrorResponse(118, "it is wrong")):
            broker = BrokerDouble(answering(response))
            failure = self.failureResultOf(self.connect(broker, "hidden"), AuthenticationFailed)
            self.assertEqual(failure.getErrorMessage(), "user 'ann': it is wrong")
            self.assertTrue(broker.aborted)

    def test_a_broker_that_does_not_answer_is_given_up(self) -> None:
        """After the request's timeout."""
        broker = BrokerDouble(lambda request: Deferred())
        connecting = self.connect(broker)
        self.clock.advance(4.9)
        self.assertNoResult(connecting)
        self.clock.advance(0.2)
        self.failureResultOf(connecting, BrokerUnavailable)
        self.assertTrue(broker.aborted)

    def test_a_broker_of_an_earlier_release_is_named_as_such(self) -> None:
        """It closes the connection at a request that it does not know."""

        def lost(request: Authenticate) -> Deferred[Any]:
            gone: Deferred[Any] = Deferred()
            gone.errback(BrokerUnavailable("the connection was lost"))
            return gone

        failure = self.failureResultOf(self.connect(BrokerDouble(lost)), BrokerUnavailable)
        self.assertIn("earlier release", failure.getErrorMessage())

    def test_credentials_that_cannot_be_read_close_the_connection(self) -> None:
        """A password file may be gone when a client connects again."""

        def gone() -> Credentials:
            raise ConfigurationError("the file is gone")

        broker: Any = BrokerDouble()
        connect = authenticating_connect(lambda address: succeed(broker), gone, self.clock, 5.0)
        self.failureResultOf(connect("x"), ConfigurationError)
        self.assertTrue(broker.aborted)

    def test_a_link_tells_a_refused_user_from_a_broker_that_is_away(self) -> None:
        """The first is final; a broker that has not read its users yet is tried again."""
        for code, expected in ((118, AuthenticationFailed), (CoordinationUnavailable.code, BrokerUnavailable)):
            connection: Any = BrokerDouble(answering(AuthenticateResponse(code)))
            connect = authenticating_connect(
                partial(_reach, connection), lambda: Credentials("ann", "x"), self.clock, 5.0
            )
            link = BrokerLink(self.clock, ("127.0.0.1", 1), connect, LinkSettings(), lambda: 0.5)
            self.failureResultOf(link.get(), expected)
            link.close()
