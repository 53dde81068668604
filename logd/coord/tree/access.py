"""Access lists: the permissions of identities on a node, under the schemes world, auth, digest and ip."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha1
from ipaddress import ip_address, ip_network

from logd.coord.errors import InvalidAcl, NoAuth
from logd.coord.records import OPEN_ACL, Acl, Identity, Permission

ANYONE = ("world", "anyone")
#: The bytes that the access lists of one request may take in its change, once "auth" is resolved: as many as a request
#: itself (ZooKeeper's jute.maxbuffer). Only many identities expand a list further, and every node would keep it.
LISTS_BYTES = 1 << 20
#: Rows of one list. Each row is checked at every access to a node with the list, so long lists on a busy node would
#: leave no time for other clients.
MOST_ROWS = 128
#: A row's permissions, and the lengths of its two strings.
_ROW_BYTES = 12


def digest_identity(credentials: bytes) -> Identity:
    """Return the identity of ``user:password`` under the scheme digest; no check is needed.

    As in ZooKeeper's DigestAuthenticationProvider: the user's name, and the SHA-1 of the whole in base64.
    """
    user = credentials.split(b":", 1)[0]
    return Identity("digest", f"{user.decode()}:{b64encode(sha1(credentials).digest()).decode()}")


def identity_of(scheme: str, credentials: bytes) -> Identity | None:
    """Return the identity that credentials prove; None for an unknown scheme, or a name that is no text."""
    try:
        return digest_identity(credentials) if scheme == "digest" else None
    except UnicodeDecodeError:
        return None


def resolve_acl(acl: Iterable[Acl], identities: Iterable[Identity], path: str) -> tuple[Acl, ...]:
    """Return the list as it is stored: without duplicates, and with "auth" replaced by the client's own identities.

    Raises InvalidAcl when the list is empty, names an unknown scheme or a malformed identity, contains "auth" for an
    unauthenticated client, has more than MOST_ROWS, or takes more than LISTS_BYTES.
    """
    resolved: dict[Acl, None] = {}
    for row in dict.fromkeys(acl):
        if row.scheme == "auth":
            own = [Acl(row.permissions, each.scheme, each.id) for each in identities if each.scheme == "digest"]
            if not own:
                raise InvalidAcl(f"{path}: an access list says 'auth', and the client has not authenticated", path)
            resolved.update(dict.fromkeys(own))
        elif _is_well_formed(row):
            resolved[row] = None
        else:
            raise InvalidAcl(f"{path}: {row.scheme}:{row.identity} is not a valid identity for an access list", path)
        if len(resolved) > MOST_ROWS:
            raise InvalidAcl(f"{path}: an access list has more than {MOST_ROWS} rows", path)
    if not resolved:
        raise InvalidAcl(f"{path}: an access list must name at least one identity", path)
    result = tuple(resolved)
    if result == OPEN_ACL:
        return OPEN_ACL  # nearly every node has this one: keep it once
    demand_room(bytes_of(result), path)
    return result


def bytes_of(acl: tuple[Acl, ...]) -> int:
    """Return the approximate number of bytes that a list takes in a change."""
    return sum(_ROW_BYTES + len(row.scheme) + len(row.identity) for row in acl)


def demand_room(taken: int, path: str) -> None:
    """Raise InvalidAcl if ``taken`` bytes exceed the limit for the access lists of one request."""
    if taken > LISTS_BYTES:
        raise InvalidAcl(f"{path}: access lists of {taken} bytes in one request, {LISTS_BYTES} are allowed", path)


def is_allowed(acl: tuple[Acl, ...], permission: int, identities: Iterable[Identity]) -> bool:
    """Return whether the list grants one of the permissions to a client with these identities."""
    if acl is OPEN_ACL:
        return True
    known = {(each.scheme, each.id) for each in identities}
    known.add(ANYONE)
    return any(
        row.permissions & permission and ((row.scheme, row.identity) in known or _is_at(row, identities)) for row in acl
    )


def demand(acl: tuple[Acl, ...], permission: Permission, identities: Iterable[Identity], path: str) -> None:
    """Raise NoAuth unless the list grants the permission."""
    if acl is not OPEN_ACL and not is_allowed(acl, permission, identities):
        raise NoAuth(f"{path}: the node's access list does not allow {permission.name} to this client", path)


def without_secrets(acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """Return the list for clients that may read but not administer the node: digest hashes become "x"."""
    return tuple(
        row._replace(identity=row.identity.split(":", 1)[0] + ":x") if row.scheme == "digest" else row for row in acl
    )


def _is_well_formed(row: Acl) -> bool:
    if row.scheme == "digest":
        return row.identity.count(":") == 1
    if row.scheme == "ip":
        try:
            ip_network(row.identity, strict=False)
        except ValueError:
            return False
        return True
    return (row.scheme, row.identity) == ANYONE


def _is_at(row: Acl, identities: Iterable[Identity]) -> bool:
    """Return whether the row names a network that contains one of the identities' addresses."""
    return row.scheme == "ip" and any(_lies_in(each.id, row.identity) for each in identities if each.scheme == "ip")


@lru_cache(maxsize=1024)
def _lies_in(address: str, network: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False
