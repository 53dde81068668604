"""What a client may do with groups, and with the topics of their positions."""

from __future__ import annotations

from attrs import frozen

from logd.broker.kafka.error_codes import kafka_code
from logd.broker.kafka.groups.refusals import GroupRefused
from logd.broker.security.requester import Requester
from logd.broker.security.rights import Rights
from logd.errors import WireError
from logd.security.access_rules import Operation, ResourceType


@frozen
class GroupRights:
    """The rights of one connection, as the handlers of requests about groups ask for them."""

    _rights: Rights

    @property
    def requester(self) -> Requester:
        """The client."""
        return self._rights.requester

    def check(self, operation: Operation, group: str) -> None:
        """Raise GroupRefused unless the client may do this with a group."""
        try:
            self._rights.check_group(operation, group)
        except WireError as error:
            raise GroupRefused(kafka_code(error), str(error)) from error

    def topic_error(self, operation: Operation, topic: str) -> int:
        """Return Kafka's code if the client may not do this with a topic, else 0."""
        refusal = self._rights.topic_refusal(operation, topic)
        return 0 if refusal is None else kafka_code(refusal)

    def may_describe_topic(self, topic: str) -> bool:
        """Return whether the positions in a topic may be shown."""
        return self._rights.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def may_list(self, group: str) -> bool:
        """Return whether a group may be listed."""
        return self._rights.may(Operation.DESCRIBE, ResourceType.CLUSTER) or self._rights.may(
            Operation.DESCRIBE, ResourceType.GROUP, group
        )
