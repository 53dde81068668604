"""A user and its password, as a client has them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen


@frozen
class Credentials:
    """A user and its password, which is not shown."""

    user: str
    password: str = field(repr=False)


#: Returns whom to connect as, None for nobody; asked for each connection, since a password file may have changed.
FindCredentials = Callable[[], Credentials | None]
