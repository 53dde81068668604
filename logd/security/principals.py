"""Principals: whom a request comes from. A principal is the name of a user."""

from __future__ import annotations

from typing import Final

from logd.errors import ConfigurationError

#: The principal of a connection that has not authenticated.
ANONYMOUS: Final = "anonymous"
#: The principal of brokers on one another's connections. It is no user: see ``broker_identity``.
BROKER: Final = "logd-broker"
#: In an access rule: every principal.
EVERYONE: Final = "*"
#: The most characters of a principal's name.
MOST_CHARACTERS = 200


def check_principal(name: str) -> str:
    """Return ``name`` if a user may have it. Raises ConfigurationError, which says what is allowed."""
    allowed = 0 < len(name) <= MOST_CHARACTERS and name.isprintable() and not set(name) & set("/:*,\\\"' ")
    if not allowed or name in (".", ".."):
        raise ConfigurationError(
            f"{name!r} is not allowed as the name of a user; allowed are 1 to {MOST_CHARACTERS} printable characters, "
            "without spaces, quotes, backslashes and the characters / : * ,"
        )
    return name
