"""The rights of one connection: what its requester may do, asked by the handlers of its requests."""

from __future__ import annotations

from attrs import define, field

from logd.broker.security.authorizer import Authorizer
from logd.broker.security.requester import Requester
from logd.errors import ClusterAuthorizationFailed, WireError
from logd.security.access_rules import MOST_CHARACTERS, AccessRules, Operation, ResourceType
from logd.security.principals import BROKER

#: Questions of one connection whose answer, a yes, is remembered.
MOST_REMEMBERED = 1000
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


@define
class Rights:
    """Each question comes in two forms: one that raises the WireError to answer, and one that returns it."""

    authorizer: Authorizer
    requester: Requester
    #: The rules and the principal for which answers are remembered: each change of rules brings another object.
    _rules: AccessRules | None = field(default=None, init=False)
    _principal: str = field(default="", init=False)
    _allowed: set[tuple[Operation, str]] = field(factory=set, init=False)

    def topic_refusal(self, operation: Operation, topic: str) -> WireError | None:
        """Return why the requester may not do this with a topic, None if it may. Asked for each set and fetch."""
        authorizer, requester = self.authorizer, self.requester
        if authorizer.open:
            return None
        if authorizer.rules is not self._rules or requester.principal != self._principal:
            self._rules, self._principal = authorizer.rules, requester.principal
            self._allowed.clear()
        elif (operation, topic) in self._allowed:
            return None
        refusal = authorizer.refusal(requester, operation, _TOPIC, topic)
        if refusal is None and len(self._allowed) < MOST_REMEMBERED and len(topic) <= MOST_CHARACTERS:
            self._allowed.add((operation, topic))
        return refusal

    def check_topic(self, operation: Operation, topic: str) -> None:
        """Raise TopicAuthorizationFailed unless the requester may do this with a topic."""
        refusal = self.topic_refusal(operation, topic)
        if refusal is not None:
            raise refusal

    def check_create(self, topic: str) -> None:
        """Raise TopicAuthorizationFailed unless the requester may create a topic: this one, or any in the cluster."""
        if not self.may(Operation.CREATE, _CLUSTER):
            self.check_topic(Operation.CREATE, topic)

    def check_group(self, operation: Operation, group: str) -> None:
        """Raise GroupAuthorizationFailed unless the requester may do this with a group."""
        refusal = self.authorizer.refusal(self.requester, operation, _GROUP, group)
        if refusal is not None:
            raise refusal

    def check_cluster(self, operation: Operation) -> None:
        """Raise ClusterAuthorizationFailed unless the requester may do this with the cluster."""
        refusal = self.authorizer.refusal(self.requester, operation, _CLUSTER)
        if refusal is not None:
            raise refusal

    def broker_refusal(self) -> WireError | None:
        """Return why the requester may not do what only brokers do, None if it may: it is one, or all are allowed."""
        requester = self.requester
        if self.authorizer.open or (requester.authenticated and requester.principal == BROKER):
            return None
        return ClusterAuthorizationFailed(f"{requester.principal} is no broker of this cluster")

    def may_write_something(self) -> bool:
        """Return whether the requester may produce to any topic at all."""
        return self.may(Operation.WRITE, _CLUSTER) or self.authorizer.allows_some(
            self.requester, Operation.WRITE, _TOPIC
        )

    def may(self, operation: Operation, kind: ResourceType, name: str = "cluster") -> bool:
        """Return whether the requester may do this; a no is not counted as a refused request."""
        return self.authorizer.allows(self.requester, operation, kind, name)
