"""Answers Authenticate: the exchange by which a client proves who it is, before it asks for anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.requests.core import BrokerCore
from logd.broker.security.authentication import ConnectionAuthentication
from logd.broker.security.requester import Requester
from logd.errors import InvalidRequest, WireError
from logd.net.server import Connection
from logd.net.session import PauseReason
from logd.protocol.requests.authenticate import Authenticate, AuthenticateResponse

_log = Logger()


@define(eq=False)
class AuthenticateRequests:
    """The exchange of one connection. While an answer is awaited nothing else of the connection is taken."""

    _broker: BrokerCore
    _connection: Connection
    _requester: Requester
    #: Called once the client has proved who it is; raises the WireError to answer in place of success.
    _authenticated: Callable[[], None]
    #: True once the connection has asked for something else.
    has_begun: bool = field(default=False, init=False)
    _exchange: ConnectionAuthentication = field(init=False)
    _answering: Deferred[None] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._exchange = ConnectionAuthentication(
            self._broker.authentication, self._requester, lambda: self._connection.encrypted
        )

    def authenticate(self, request: Authenticate, token: Any, has_produced: bool) -> None:
        """Answer one message of the exchange. After a failure the connection is closed."""
        self._connection.pause(PauseReason.AUTHENTICATION)
        self._answering = Deferred.fromCoroutine(self._answer(request, token, self.has_begun or has_produced))
        self._answering.addErrback(self._failed)

    def lost(self) -> None:
        """Answer nothing any more."""
        answering, self._answering = self._answering, None
        if answering is not None:
            answering.cancel()

    async def _answer(self, request: Authenticate, token: Any, late: bool) -> None:
        connection = self._connection
        try:
            if late or self._requester.credential is not None:
                raise InvalidRequest("Authenticate comes once, before all other requests of a connection")
            done, data = await self._exchange.step(request.mechanism, request.data)
            if done:
                self._authenticated()
        except WireError as error:
            connection.answer(token, AuthenticateResponse(error.code, text=str(error)))
            connection.close()
        else:
            connection.answer(token, AuthenticateResponse(0, done, data))
        self._answering = None
        connection.resume(PauseReason.AUTHENTICATION)

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            _log.failure("a request of {peer} failed; closing its connection", failure, peer=self._connection.peer)
            self._connection.close(drain=False)
