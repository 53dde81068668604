"""Resolves an operation on the current tree: the effect that it has, or the error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logd.coord.errors import BadArguments, BadVersion, NoChildrenForEphemerals, NodeExists, NotEmpty
from logd.coord.records import (
    ANY_VERSION,
    Check,
    Create,
    Created,
    Delete,
    Identity,
    Permission,
    SetAcl,
    SetData,
)
from logd.coord.tree.access import demand, resolve_acl
from logd.coord.tree.changes import AclReplaced, DataReplaced, Effect, NodeMade, NodeRemoved
from logd.coord.tree.outcome import OperationResult
from logd.coord.tree.pathnames import SPECIAL, check_path, parent_of
from logd.coord.tree.store import NodeStore

SingleWrite = Create | Delete | SetData | SetAcl | Check


def resolve(store: NodeStore, operation: SingleWrite, identities: Iterable[Identity]) -> Effect | None:
    """Return the operation's effect, None for a Check; raise a CoordinationError when it cannot be done.

    The first failed check decides the error, so the order is that of ZooKeeper's PrepRequestProcessor: the new access
    list, existence of nodes, access, the rest of the path, versions, children.
    """
    return _RESOLVERS[type(operation)](store, operation, identities)


#: Effects that are answered with the node's new Stat.
_CHANGING = (DataReplaced, AclReplaced)


def result_of(store: NodeStore, effect: Effect | None) -> OperationResult:
    """Return the client's result for an effect that has just been applied."""
    if isinstance(effect, NodeMade):
        return Created(effect.path, store.stat(effect.path))
    if isinstance(effect, _CHANGING):
        return store.stat(effect.path)
    return None


def _create(store: NodeStore, request: Create, identities: Iterable[Identity]) -> Effect:
    path = request.path
    parent_path = _parent_of_any(path)
    acl = resolve_acl(request.acl, identities, path)
    parent = store.get(parent_path)
    demand(parent.acl, Permission.CREATE, identities, parent_path)
    if request.sequence:
        path = f"{path}{parent.children_made:010d}"
    check_path(path)
    if path in store.nodes:
        raise NodeExists(path=path)
    if parent.ephemeral_owner:
        raise NoChildrenForEphemerals(path=parent_path)
    store.demand_room(path, request.data, acl)
    return NodeMade(path, request.data, acl, request.ephemeral)


def _delete(store: NodeStore, request: Delete, identities: Iterable[Identity]) -> Effect:
    path = request.path
    parent_path = _parent_of_any(path)
    if path in SPECIAL:
        raise BadArguments(f"{path} is a part of every tree and cannot be deleted", path)
    demand(store.get(parent_path).acl, Permission.DELETE, identities, parent_path)
    node = store.get(path)
    _demand_version(node.version, request.version, path)
    if store.children(path):
        raise NotEmpty(path=path)
    return NodeRemoved(path)


def _set_data(store: NodeStore, request: SetData, identities: Iterable[Identity]) -> Effect:
    path = request.path
    node = store.nodes.get(path)
    if node is None:
        node = store.get(check_path(path))  # an invalid path fails with another error than a missing node
    demand(node.acl, Permission.WRITE, identities, path)
    _demand_version(node.version, request.version, path)
    if len(request.data) > len(node.data):
        store.demand_bytes(path, request.data, node.acl)
    return DataReplaced(path, request.data)


def _set_acl(store: NodeStore, request: SetAcl, identities: Iterable[Identity]) -> Effect:
    path = check_path(request.path)
    acl = resolve_acl(request.acl, identities, path)
    node = store.get(path)
    demand(node.acl, Permission.ADMIN, identities, path)
    _demand_version(node.acl_version, request.version, path)
    store.demand_bytes(path, node.data, acl)
    return AclReplaced(path, acl)


def _check(store: NodeStore, request: Check, identities: Iterable[Identity]) -> None:
    path = check_path(request.path)
    node = store.get(path)
    demand(node.acl, Permission.READ, identities, path)
    _demand_version(node.version, request.version, path)


_RESOLVERS: dict[type, Callable[[NodeStore, Any, Iterable[Identity]], Effect | None]] = {
    Create: _create,
    Delete: _delete,
    SetData: _set_data,
    SetAcl: _set_acl,
    Check: _check,
}


def _parent_of_any(path: str) -> str:
    """Return the parent of a path that may be invalid; raise BadArguments if it has none."""
    if "/" not in path or "\0" in path:
        raise BadArguments(f"{path[:200]!r} is no path of a node: it has no parent, or a null character", path)
    return parent_of(path)


def _demand_version(actual: int, demanded: int, path: str) -> None:
    if demanded not in (ANY_VERSION, actual):
        raise BadVersion(f"{path}: the version is {actual}, not {demanded}: another client changed it", path)
