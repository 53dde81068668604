"""Kafka's InitProducerId: gives each idempotent producer an id that no other one of the cluster has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from logd.broker.kafka.error_codes import COORDINATOR_NOT_AVAILABLE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.producer_ids import take_block
from logd.protocol.kafka.apis import APIS

INIT_PRODUCER_ID = APIS[22]


class ProducerIds:
    """Ids from the blocks that this broker takes from the coordination tree."""

    def __init__(self, tree: ICoordination) -> None:
        self._tree = tree
        self._left: Iterator[int] = iter(())
        self._lock = DeferredLock()

    async def next(self) -> int:
        """Return an id. Raises CoordinationError, and ValueError for a node of the tree that cannot be read."""
        await self._lock.acquire()
        try:
            for each in self._left:
                return each
            self._left = iter(await take_block(self._tree))
            return next(self._left)
        finally:
            self._lock.release()


class KafkaInitProducerId:
    """The InitProducerId requests of one connection."""

    _log = Logger()

    def __init__(self, ids: ProducerIds, peer: str) -> None:
        self._ids = ids
        self._peer = peer

    async def init_producer_id(self, request: Any) -> Any:
        """Return an id with epoch 0; transactions are refused, which ends such a producer with an error."""
        error, producer = 0, -1
        if request.transactional_id is not None:
            self._log.warn(
                "{peer} asked for the transactional id {name!r}: there are no transactions; leave transactional.id out",
                peer=self._peer, name=request.transactional_id,
            )  # fmt: skip
            error = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        else:
            try:
                producer = await self._ids.next()
            except (CoordinationError, ValueError) as problem:
                self._log.warn("there is no id for a producer of {peer}: {problem}", peer=self._peer, problem=problem)
                error = COORDINATOR_NOT_AVAILABLE
        return INIT_PRODUCER_ID.response(
            throttle_time_ms=0, error_code=error, producer_id=producer, producer_epoch=-1 if error else 0
        )
