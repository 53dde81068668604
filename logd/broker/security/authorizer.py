"""Decides whether a requester may do something: by the access rules of the tree, superusers, and the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import define, field

from logd.broker.security.requester import Requester
from logd.errors import (
    ClusterAuthorizationFailed,
    CoordinationUnavailable,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    WireError,
)
from logd.security.access_rules import CLUSTER_NAME, AccessRules, Operation, ResourceType
from logd.security.principals import BROKER


@define(eq=False)
class Authorizer:
    """Answers for all connections of a broker.

    While there are neither users nor rules, and ``security.required`` is false, everything is allowed: such a broker
    listens on loopback only unless it was told otherwise.
    """

    ERRORS: ClassVar[dict[ResourceType, type[WireError]]] = {
        ResourceType.TOPIC: TopicAuthorizationFailed,
        ResourceType.GROUP: GroupAuthorizationFailed,
        ResourceType.CLUSTER: ClusterAuthorizationFailed,
    }

    #: The setting security.required.
    required: bool = False
    superusers: frozenset[str] = frozenset()
    rules: AccessRules = field(factory=AccessRules, init=False)
    #: True if the tree has users.
    has_users: bool = field(default=False, init=False)
    #: True once users and rules have been read; before, nothing is allowed where they are required.
    is_known: bool = field(default=False, init=False)
    #: Refused requests by the type of the resource, for the metrics.
    refused: dict[ResourceType, int] = field(factory=lambda: dict.fromkeys(ResourceType, 0), init=False)
    #: Called after each change that may take something away.
    _listeners: list[Callable[[], None]] = field(factory=list, init=False)
    #: True when everything is allowed; asked before anything else.
    open: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.open = not self.required

    def expect_users(self) -> None:
        """Allow nothing until users and rules have been read: the cluster had some when it was last seen."""
        if not self.is_known:
            self.open = False

    def take(self, rules: AccessRules, has_users: bool) -> None:
        """Take the rules that the tree has now, and whether it has users, or users or rules that cannot be read."""
        self.rules, self.has_users, self.is_known = rules, has_users, True
        self.open = not (self.required or has_users or len(rules))
        for listener in tuple(self._listeners):
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener()`` after each change of the rules."""
        self._listeners.append(listener)

    def allows(self, requester: Requester, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the requester may do this."""
        if self.open:
            return True
        principal = requester.principal
        if requester.authenticated and (principal == BROKER or principal in self.superusers):
            return True
        return self.is_known and self.rules.allows(principal, operation, kind, name)

    def allows_some(self, requester: Requester, operation: Operation, kind: ResourceType) -> bool:
        """Return whether the requester may do this with some resource of the type."""
        return self.is_known and self.rules.allows_some(requester.principal, operation, kind)

    def refusal(
        self, requester: Requester, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME
    ) -> WireError | None:
        """Return the error to answer, counted, or None if the requester may do this."""
        if self.open or self.allows(requester, operation, kind, name):
            return None
        self.refused[kind] += 1
        if not self.is_known:
            return CoordinationUnavailable("users and access rules have not been read from the coordination tree yet")
        what = "the cluster" if kind is ResourceType.CLUSTER else f"{kind.value} {name!r}"
        remedy = (
            f"ask an administrator for: logd acl add {requester.principal} --allow {operation.value} "
            f"--{kind.value}{'' if kind is ResourceType.CLUSTER else ' ' + name}"
            if requester.authenticated
            else "it has not authenticated: give a user and a password (LOGD_USER, LOGD_PASSWORD_FILE)"
        )
        return self.ERRORS[kind](f"{requester.principal} may not {operation.verb} {what}; {remedy}")
