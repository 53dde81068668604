"""Kafka's SaslHandshake and SaslAuthenticate, which are refused: there are no users yet."""

from __future__ import annotations

from typing import Any

from logd.protocol.kafka.apis import APIS

SASL_HANDSHAKE, SASL_AUTHENTICATE = APIS[17], APIS[36]
UNSUPPORTED_SASL_MECHANISM = 33


async def sasl_handshake(request: Any) -> Any:
    """Answer that no mechanism is supported, so that the client tells its user instead of trying again."""
    return SASL_HANDSHAKE.response(error_code=UNSUPPORTED_SASL_MECHANISM, mechanisms=[])


async def sasl_authenticate(request: Any) -> Any:
    """Refuse to authenticate: no handshake can have been successful."""
    return SASL_AUTHENTICATE.response(
        error_code=UNSUPPORTED_SASL_MECHANISM,
        error_message="there are no users: connect without SASL (security.protocol PLAINTEXT or SSL)",
        auth_bytes=b"",
        session_lifetime_ms=0,
    )
