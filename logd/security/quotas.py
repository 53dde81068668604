"""Quotas: how much a user may use of each broker, and of the cluster's topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from attrs import field, fields, fields_dict, frozen

from logd.errors import ConfigurationError
from logd.security.principals import ANONYMOUS, BROKER, EVERYONE, check_principal

#: The lowest rate, in bytes a second: one answer may be larger than a second's worth, and is paid by waiting.
LEAST_RATE = 1000
#: The highest value of each limit.
MOST = 1 << 53


def _limit(name: str, meaning: str, least: int) -> Any:
    return field(default=None, metadata={"name": name, "meaning": meaning, "least": least})


@frozen
class Quota:
    """The limits of one user; None for no limit. Raises ConfigurationError for a value that is not allowed."""

    bytes_in: int | None = _limit("bytes.in", "bytes a second from the user to one broker", LEAST_RATE)
    bytes_out: int | None = _limit("bytes.out", "bytes a second from one broker to the user", LEAST_RATE)
    connections: int | None = _limit("connections", "open connections of the user with one broker", 1)
    requests: int | None = _limit("requests", "requests of the user under way at one broker", 1)
    topics: int | None = _limit("topics", "topics that the user may have created", 0)
    partitions: int | None = _limit("partitions", "partitions of the topics that the user has created", 0)

    def __attrs_post_init__(self) -> None:
        for each in fields(type(self)):
            value, least = getattr(self, each.name), each.metadata["least"]
            if value is not None and not (type(value) is int and least <= value <= MOST):
                name = each.metadata["name"]
                raise ConfigurationError(
                    f"{name} = {value!r} is not allowed in a quota; allowed is a whole number from {least} to {MOST}"
                )

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read the content of a node; names that are not known are passed over. Raises ConfigurationError."""
        return cls(**{field_name: content.get(name) for name, field_name in FIELDS.items()})

    def limits(self) -> dict[str, int]:
        """Return the limits that are set, by their names."""
        return {name: getattr(self, each) for name, each in FIELDS.items() if getattr(self, each) is not None}

    def to_json(self) -> bytes:
        """Return the content of the quota's node."""
        return json.dumps(self.limits(), sort_keys=True).encode()

    def over(self, default: Quota) -> Quota:
        """Return this quota, with the limits of ``default`` where it has none."""
        return Quota(*[getattr(self if getattr(self, each) is not None else default, each) for each in FIELDS.values()])


#: The names of the limits as users write them, with those of the fields.
FIELDS = {each.metadata["name"]: name for name, each in fields_dict(Quota).items()}
#: The meaning of each limit, by its name.
MEANINGS = {each.metadata["name"]: each.metadata["meaning"] for each in fields(Quota)}
NO_QUOTA = Quota()


def check_owner(principal: str) -> str:
    """Return ``principal`` if it may have a quota: a user, ``anonymous``, or ``*``. Raises ConfigurationError."""
    if principal == BROKER:
        raise ConfigurationError(f"{BROKER!r} cannot have a quota: brokers are not held up by one another")
    return principal if principal in (EVERYONE, ANONYMOUS) else check_principal(principal)


def quota_of(principal: str, quotas: Mapping[str, Quota]) -> Quota:
    """Return the limits that hold for a user: its own, and those for everyone where it has none of its own."""
    own, default = quotas.get(principal, NO_QUOTA), quotas.get(EVERYONE)
    return own if default is None else own.over(default)
