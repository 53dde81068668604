"""Kafka's InitProducerId: gives each idempotent producer an id that no other one of the cluster has."""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from logd.broker.idempotence.producer_ids import ProducerIds
from logd.broker.kafka.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from logd.broker.security.rights import Rights
from logd.checkedjson import excerpt
from logd.coord.errors import CoordinationError
from logd.protocol.kafka.apis import APIS

INIT_PRODUCER_ID = APIS[22]


class KafkaInitProducerId:
    """The InitProducerId requests of one connection."""

    _log = Logger()

    def __init__(self, ids: ProducerIds, peer: str, rights: Rights) -> None:
        self._rights = rights
        self._ids = ids
        self._peer = peer
        #: True once the log says that this client wants transactions: it may ask again as often as it likes.
        self._wants_transactions = False

    async def init_producer_id(self, request: Any) -> Any:
        """Return an id with epoch 0; transactions are refused, which ends such a producer with an error."""
        error, producer = 0, -1
        if request.transactional_id is not None:
            if not self._wants_transactions:
                self._wants_transactions = True
                self._log.warn(
                    "{peer} asked for the transactional id {name}: there are no transactions; leave transactional.id "
                    "out",
                    peer=self._peer, name=excerpt(request.transactional_id),
                )  # fmt: skip
            error = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif not self._rights.may_write_something():
            error = CLUSTER_AUTHORIZATION_FAILED
        else:
            try:
                producer = await self._ids.next()
            except (CoordinationError, ValueError) as problem:
                self._log.warn("there is no id for a producer of {peer}: {problem}", peer=self._peer, problem=problem)
                # At others clients look for the coordinator of a transaction first, though they have none.
                error = COORDINATOR_LOAD_IN_PROGRESS
        return INIT_PRODUCER_ID.response(
            throttle_time_ms=0, error_code=error, producer_id=producer, producer_epoch=-1 if error else 0
        )
