"""The users in the coordination tree, and the secret of its brokers.

/security/users/<name>  {"digest": "alice:...", "scram-sha-256": {"iterations": 8192, "salt": "...",
                         "stored_key": "...", "server_key": "..."}, "scram-sha-512": {...}}; bytes are in base64
/security/secret        32 random bytes
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from twisted.logger import Logger

from logd.checkedjson import load_json
from logd.coord import paths
from logd.coord.errors import NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.child_cache import ChildCache
from logd.interfaces import Clock
from logd.security.broker_identity import SECRET_BYTES
from logd.security.users import User, check_user_name


def decode_user(name: str, data: bytes) -> User:
    """Decode the node ``name``; raise ValueError, and nothing else, for a value that is no user. Shows none of it."""
    try:
        check_user_name(name)
        return User.from_json(load_json(data))
    except Exception as error:
        raise ValueError(f"not a user ({type(error).__name__}): remove it, and add the user again") from None


async def add_user(coordination: ICoordination, name: str, user: User) -> bool:
    """Add a user; return False if there is one of that name. Raises CoordinationError."""
    try:
        await coordination.create(paths.user(name), user.to_json(), makepath=True)
    except NodeExists:
        return False
    return True


async def change_user(coordination: ICoordination, name: str, user: User) -> bool:
    """Replace what is kept of a user; return False if there is none. Raises CoordinationError."""
    try:
        await coordination.set(paths.user(name), user.to_json())
    except NoNode:
        return False
    return True


async def remove_user(coordination: ICoordination, name: str) -> bool:
    """Remove a user; return False if there is none. Raises CoordinationError."""
    try:
        await coordination.delete(paths.user(name))
    except NoNode:
        return False
    return True


async def list_users(coordination: ICoordination) -> list[str]:
    """Return the names of the users, sorted. Raises CoordinationError."""
    try:
        return sorted(await coordination.get_children(paths.USERS))
    except NoNode:
        return []


def watch_users(
    coordination: ICoordination, clock: Clock, changed: Callable[[str], None] = lambda name: None
) -> ChildCache[User]:
    """Return a cache of the users by their names, not started yet.

    A node that cannot be read is a user whom no password proves: a cluster must not seem to have no users for it.
    """
    log = Logger()

    def decode(name: str, data: bytes) -> User:
        try:
            return decode_user(name, data)
        except ValueError as error:
            log.error("{path}/{name} cannot be read: {error}", path=paths.USERS, name=name[:200], error=str(error))
            return User({}, "")

    return ChildCache(coordination, clock, paths.USERS, decode, changed)


async def read_or_make_secret(coordination: ICoordination, random: Callable[[int], bytes]) -> bytes:
    """Return the secret of the cluster's brokers, made of ``random(32)`` by the first that asks.

    Raises CoordinationError.
    """
    while True:
        try:
            return (await coordination.get(paths.SECRET))[0]
        except NoNode:
            pass
        with suppress(NodeExists):  # another broker was faster
            await coordination.create(paths.SECRET, random(SECRET_BYTES), makepath=True)
