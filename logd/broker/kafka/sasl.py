"""Kafka's SaslHandshake and SaslAuthenticate: a client chooses a mechanism, and proves with it who it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from logd.broker.kafka.error_codes import (
    ILLEGAL_SASL_STATE,
    UNSUPPORTED_SASL_MECHANISM,
    UNSUPPORTED_VERSION,
    kafka_code,
)
from logd.broker.requests.core import BrokerCore
from logd.broker.security.authentication import ConnectionAuthentication
from logd.broker.security.requester import Requester
from logd.errors import AuthenticationFailed, QuotaExceeded, WireError
from logd.net.server import Connection
from logd.net.session import PauseReason
from logd.protocol.kafka.apis import APIS

SASL_HANDSHAKE, SASL_AUTHENTICATE = APIS[17], APIS[36]


@define(eq=False)
class KafkaSasl:
    """The authentication of one connection, before all requests but ApiVersions."""

    _broker: BrokerCore
    _connection: Connection
    _requester: Requester
    #: Called once the client has proved who it is; raises the WireError to answer in place of success.
    _authenticated: Callable[[], None]
    #: True once the connection has asked for something else.
    has_begun: bool = field(default=False, init=False)
    _exchange: ConnectionAuthentication = field(init=False)
    _mechanism: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._exchange = ConnectionAuthentication(
            self._broker.authentication, self._requester, lambda: self._connection.encrypted
        )

    def lost(self) -> None:
        """End what is under way: the connection is lost."""
        self._exchange.lost()

    async def handshake(self, request: Any) -> Any:
        """Answer with the mechanisms that there are, and remember the one that the client has chosen.

        Behind version 0 messages come without a request around them, which no client does since Kafka 1.0.
        """
        if request.version < 1:
            self._connection.close("it wants SASL of before Kafka 1.0 (SaslHandshake 0): its client is too old")
            return SASL_HANDSHAKE.response(error_code=UNSUPPORTED_VERSION, mechanisms=[])
        if self.has_begun or self._requester.credential is not None:
            return SASL_HANDSHAKE.response(error_code=ILLEGAL_SASL_STATE, mechanisms=[])
        known = self._exchange.mechanisms() if self._broker.authentication.has_users else ()
        self._mechanism = request.mechanism if request.mechanism in known else None
        code = 0 if self._mechanism is not None else UNSUPPORTED_SASL_MECHANISM
        return SASL_HANDSHAKE.response(error_code=code, mechanisms=list(known))

    async def authenticate(self, request: Any) -> Any:
        """Take one message of the exchange. Nothing else of the connection is taken meanwhile, nor after a failure."""
        if not self._broker.authentication.has_users:
            text = "there are no users: connect without SASL (security.protocol PLAINTEXT or SSL)"
            return self._refused(UNSUPPORTED_SASL_MECHANISM, text)
        if self._mechanism is None or self.has_begun:
            self._connection.close()
            return self._refused(ILLEGAL_SASL_STATE, "SaslHandshake comes first, and both before all other requests")
        self._connection.pause(PauseReason.AUTHENTICATION)
        try:
            done, data = await self._exchange.step(self._mechanism, bytes(request.auth_bytes or b""))
            if done:
                self._mechanism = None
                self._authenticated()
        except (AuthenticationFailed, QuotaExceeded) as error:
            self._connection.close()
            return self._refused(kafka_code(error), str(error))
        except WireError as error:  # for the moment: a client takes an answer for a final one
            self._connection.close(str(error), drain=False)
            return self._refused(kafka_code(error), str(error))
        finally:
            self._connection.resume(PauseReason.AUTHENTICATION)
        return SASL_AUTHENTICATE.response(error_code=0, error_message=None, auth_bytes=data, session_lifetime_ms=0)

    @staticmethod
    def _refused(code: int, text: str) -> Any:
        return SASL_AUTHENTICATE.response(error_code=code, error_message=text, auth_bytes=b"", session_lifetime_ms=0)
