"""Leader epochs as Kafka's clients see them: OffsetForLeaderEpoch, and the check of the epoch that a request names.

Clients are told epochs of replicated topics alone. A consumer compares the epoch of what it has read last with the new
leader's history: after an unclean election it learns there that its position is gone, instead of reading other messages
at the same positions.
"""

from __future__ import annotations

from typing import Any

from logd.broker.kafka.error_codes import FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, partition_code
from logd.broker.reading import find_log
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.errors import WireError
from logd.log.epochs.history import NO_EPOCH, EpochEnd
from logd.log.partition import PartitionLog
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation

OFFSET_FOR_LEADER_EPOCH = APIS[23]
#: An end that is not known.
NO_END = EpochEnd(NO_EPOCH, -1)


def current_epoch(log: PartitionLog) -> int:
    """Return the leader epoch that clients are told; NO_EPOCH for a topic that is not replicated."""
    return NO_EPOCH if log.replica is None else log.leadership.epoch


def epoch_code(log: PartitionLog, named: int) -> int:
    """Return the error for a request that names a leader epoch, 0 if it is the current one or none."""
    current = current_epoch(log)
    if NO_EPOCH in (named, current) or named == current:
        return 0
    return FENCED_LEADER_EPOCH if named < current else UNKNOWN_LEADER_EPOCH


def epoch_at(broker: BrokerCore, log: PartitionLog, position: int) -> int:
    """Return the leader epoch of the entry at ``position``, NO_EPOCH where it has none or none is known."""
    role = broker.replication.leader(log.topic, log.partition)
    return NO_EPOCH if role is None else role.history.at(position)


class KafkaLeaderEpochs:
    """The OffsetForLeaderEpoch requests of one connection."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    async def offset_for_leader_epoch(self, request: Any) -> Any:
        """Return where epochs end on this broker: consumers with a later position are ahead of what is left."""
        kind = OFFSET_FOR_LEADER_EPOCH.response_class.OffsetForLeaderTopicResult
        topics = []
        turns = self._broker.turns()
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                if turns.over:
                    await turns.rest()
                error, found = self._partition(topic.topic, part)
                parts.append(
                    kind.EpochEndOffset(
                        error_code=error, partition=part.partition, leader_epoch=found.epoch, end_offset=found.end
                    )
                )
            topics.append(kind(topic=topic.topic, partitions=parts))
        return OFFSET_FOR_LEADER_EPOCH.response(throttle_time_ms=0, topics=topics)

    def _partition(self, topic: str, part: Any) -> tuple[int, EpochEnd]:
        try:
            self._rights.check_topic(Operation.DESCRIBE, topic)
            log = find_log(self._broker.store, self._broker.topics, topic, part.partition)
        except WireError as wrong:
            return partition_code(self._broker.topics, topic, part.partition, wrong), NO_END
        error = epoch_code(log, part.current_leader_epoch)
        return error, NO_END if error else self._end_of(log, part.leader_epoch)

    def _end_of(self, log: PartitionLog, epoch: int) -> EpochEnd:
        """Return the highest epoch that is at most ``epoch``, and its end; NO_END for epochs that are not known."""
        role = self._broker.replication.leader(log.topic, log.partition)
        if role is None or not NO_EPOCH < epoch <= role.epoch:
            return NO_END
        found = role.history.end_of(epoch, log.end)
        # The log begins with a later epoch: what the client has read is gone, up to there.
        return EpochEnd(epoch, found.end) if found.epoch == NO_EPOCH else found
