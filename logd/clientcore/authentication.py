"""Authentication of a client's connection, without I/O: whom it connects as, and what it sends and expects."""

from __future__ import annotations

from collections.abc import Generator

from logd.errors import AuthenticationFailed, error_for_code
from logd.protocol.requests.authenticate import Authenticate, AuthenticateResponse
from logd.protocol.requests.responses import ErrorResponse, Response
from logd.security.credentials import Credentials
from logd.security.scram import MECHANISMS, ClientExchange


def authenticating(credentials: Credentials) -> Generator[Authenticate, Response, None]:
    """Yield each request to send before all others, and take its response; the connection is the user's at the end.

    Raises AuthenticationFailed, also for a broker that cannot prove that it knows the user, or another WireError.
    """
    mechanism = MECHANISMS[0]
    exchange = ClientExchange(mechanism, credentials.user, credentials.password)
    challenge = _checked((yield Authenticate(mechanism, exchange.first())), credentials)
    if challenge.done:
        raise AuthenticationFailed(
            "the broker asks for no proof: something else may be listening at its address, which accepts everybody"
        )
    proof = _checked((yield Authenticate(mechanism, exchange.answer(challenge.data))), credentials)
    exchange.check(proof.data)
    if not proof.done:
        raise AuthenticationFailed("the broker asks for more than a proof of the password")


def _checked(response: Response, credentials: Credentials) -> AuthenticateResponse:
    if isinstance(response, AuthenticateResponse) and not response.error:
        return response
    if isinstance(response, AuthenticateResponse | ErrorResponse):
        refusal = error_for_code(response.error)
        raise error_for_code(response.error, f"user {credentials.user!r}: {response.text or refusal}")
    raise AuthenticationFailed(f"the broker answers Authenticate with {type(response).__name__}")
