"""Users: what the cluster keeps of each, which is enough to check a password and not enough to be the user."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha1
from typing import Any, Self

from attrs import field, frozen

from logd.errors import ConfigurationError
from logd.security.principals import ANONYMOUS, BROKER, check_principal
from logd.security.scram import MECHANISMS, SALT_BYTES, Verifier, prepared

#: A password is hashed by the broker where it comes as it is, so its length is bounded.
MOST_PASSWORD_CHARACTERS = 256


@frozen
class User:
    """A verifier for each mechanism, and the user's entry in access lists of the coordination tree."""

    verifiers: Mapping[str, Verifier] = field(repr=False)
    #: ZooKeeper's digest, ``name:base64 of SHA-1 of name:password``: the id of scheme ``digest`` in access lists.
    digest: str = field(repr=False)

    @classmethod
    def of(cls, name: str, password: str, random: Callable[[int], bytes]) -> Self:
        """Make a user; ``random(n)`` returns n random bytes. Raises ConfigurationError. Hashes for milliseconds."""
        check_new_name(name)
        check_password(password)
        verifiers = {each: Verifier.of(each, password, random(SALT_BYTES)) for each in MECHANISMS}
        return cls(verifiers, zookeeper_digest(name, password))

    def to_json(self) -> bytes:
        """Return the content of the user's node."""
        content: dict[str, Any] = {name.lower(): each.to_json() for name, each in self.verifiers.items()}
        return json.dumps({**content, "digest": self.digest}, sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read the content of a node. Raises ValueError, KeyError or TypeError."""
        verifiers = {each: Verifier.from_json(each, content[each.lower()]) for each in MECHANISMS}
        return cls(verifiers, str(content["digest"]))


def check_user_name(name: str) -> str:
    """Return ``name`` if a user may be called so. Raises ConfigurationError."""
    if name in (ANONYMOUS, BROKER):
        raise ConfigurationError(f"{name!r} is not allowed as the name of a user: it has a meaning of its own")
    return check_principal(name)


def check_new_name(name: str) -> str:
    """Return ``name`` if a user may be added under it: clients prove it in this form. Raises ConfigurationError.

    Of two names that look alike, and are the same to a client, one would be a user whom nobody can prove to be.
    """
    check_user_name(name)
    try:
        form = prepared(name)
    except ValueError:
        form = ""
    if form != name:
        hint = f"; clients send it as {form!r}: add that" if form else ": it has characters that SCRAM does not know"
        raise ConfigurationError(f"{name!a} is not allowed as the name of a user{hint}")
    return name


def check_password(password: str) -> str:
    """Return ``password`` if a user may have it. Raises ConfigurationError, which does not show it."""
    if not 0 < len(password) <= MOST_PASSWORD_CHARACTERS or not password.isprintable():
        raise ConfigurationError(
            f"the password is not allowed: it has {len(password)} characters; allowed are 1 to "
            f"{MOST_PASSWORD_CHARACTERS}, all of them printable"
        )
    try:
        prepared(password)
    except ValueError:
        raise ConfigurationError(
            "the password is not allowed: it has characters that SCRAM does not know (RFC 4013), such as emoji"
        ) from None
    return password


def zookeeper_digest(name: str, password: str) -> str:
    """Return the id by which ZooKeeper knows a user: the scheme ``digest`` of its access lists."""
    return f"{name}:{b64encode(sha1(f'{name}:{password}'.encode()).digest()).decode()}"
