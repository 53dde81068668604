"""Access lists: which a node may have, and what they allow to whom, under the schemes world, auth, digest and ip."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha1
from ipaddress import ip_address, ip_network

from logd.coord.errors import InvalidAcl, NoAuth
from logd.coord.records import OPEN_ACL, Acl, Identity, Permission

ANYONE = ("world", "anyone")
#: What the access lists of one request may take in its change, in bytes, once "auth" stands for somebody: as much as a
#: request itself (ZooKeeper's jute.maxbuffer). Only many identities make more of it, and every node would keep them.
LISTS_BYTES = 1 << 20
#: Rows of one list. Each is looked at whenever somebody asks for something of a node that has the list, so that long
#: lists on a node that is asked for often would leave no time for anybody else.
MOST_ROWS = 128
#: A row's permissions, and the lengths of its two strings.
_ROW_BYTES = 12


def digest_identity(credentials: bytes) -> Identity:
    """Who a client is that authenticates with ``user:password`` under the scheme digest; no check is needed.

    As in ZooKeeper's DigestAuthenticationProvider: the user's name, and the SHA-1 of all of it in base64.
    """
    user = credentials.split(b":", 1)[0]
    return Identity("digest", f"{user.decode()}:{b64encode(sha1(credentials).digest()).decode()}")


def identity_of(scheme: str, credentials: bytes) -> Identity | None:
    """Who a client is that authenticates so; None for a scheme that is not known here, or a name that is no text."""
    try:
        return digest_identity(credentials) if scheme == "digest" else None
    except UnicodeDecodeError:
        return None


def resolve_acl(acl: Iterable[Acl], identities: Iterable[Identity], path: str) -> tuple[Acl, ...]:
    """Return the list as it is stored: without repetitions, and with "auth" replaced by the client's own identities.

    Raises InvalidAcl when the list is empty, names an unknown scheme or a malformed identity, says "auth" where the
    client has not authenticated, has more than MOST_ROWS, or takes more than LISTS_BYTES.
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
            raise InvalidAcl(f"{path}: {row.scheme}:{row.identity} is nobody whom an access list can name", path)
        if len(resolved) > MOST_ROWS:
            raise InvalidAcl(f"{path}: an access list has more than {MOST_ROWS} rows", path)
    if not resolved:
        raise InvalidAcl(f"{path}: an access list has to name somebody", path)
    result = tuple(resolved)
    if result == OPEN_ACL:
        return OPEN_ACL  # nearly every node has this one: keep it once
    demand_room(bytes_of(result), path)
    return result


def bytes_of(acl: tuple[Acl, ...]) -> int:
    """About how many bytes a list takes in a change."""
    return sum(_ROW_BYTES + len(row.scheme) + len(row.identity) for row in acl)


def demand_room(taken: int, path: str) -> None:
    """Raise InvalidAcl if so many bytes are more than the access lists of one request may take."""
    if taken > LISTS_BYTES:
        raise InvalidAcl(f"{path}: access lists of {taken} bytes in one request, {LISTS_BYTES} are allowed", path)


def is_allowed(acl: tuple[Acl, ...], permission: int, identities: Iterable[Identity]) -> bool:
    """Whether the list grants somebody who is all of ``identities`` one of the permissions."""
    if acl is OPEN_ACL:
        return True
    known = {(each.scheme, each.id) for each in identities}
    known.add(ANYONE)
    return any(
        row.permissions & permission and ((row.scheme, row.identity) in known or _is_at(row, identities)) for row in acl
    )


def demand(acl: tuple[Acl, ...], permission: Permission, identities: Iterable[Identity], path: str) -> None:
    """Raise NoAuth unless the list allows that."""
    if acl is not OPEN_ACL and not is_allowed(acl, permission, identities):
        raise NoAuth(f"{path}: the node's access list does not allow {permission.name} to this client", path)


def without_secrets(acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """The list for those who may read but not administer the node: the hashes of digests are replaced by "x"."""
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
    """Whether the row names a network, and one of the identities is an address in it."""
    return row.scheme == "ip" and any(_lies_in(each.id, row.identity) for each in identities if each.scheme == "ip")


@lru_cache(maxsize=1024)
def _lies_in(address: str, network: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False
