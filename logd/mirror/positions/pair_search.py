"""The search for pairs of positions in topic ``_mirror``, from its newest end backwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from attrs import frozen
from twisted.logger import Logger

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.errors import UnknownTopic
from logd.mirror.positions.pairs import PositionPair
from logd.mirror.topic_names import PAIRS_TOPIC

#: Bytes of the first step back; each further one is twice as long, up to a limit: its pairs are held in memory.
FIRST_STEP = 1 << 20
MOST_STEP = 16 << 20


@frozen
class PairSearch:
    """Reads pairs of the target, step by step, so that a long history is not read for what stands at its end."""

    _log = Logger()

    admin: Admin
    #: Makes a consumer of no group on the target.
    consumer: Callable[[], Consumer]

    async def backwards(self) -> AsyncIterator[list[PositionPair]]:
        """Yield the pairs of one step after another; the first has the newest. Nothing if there is no such topic.

        Raises BrokerUnavailable and the errors of ``Admin.describe_log``. Messages that are no pairs are passed.
        """
        try:
            log = await self.admin.describe_log(PAIRS_TOPIC, 0)
        except UnknownTopic:
            return
        end, step = log.visible_end, FIRST_STEP
        while end > log.log_start:
            (begin,) = (await self.admin.describe_log(PAIRS_TOPIC, 0, [max(log.log_start, end - step)])).boundaries
            begin = max(log.log_start, begin)
            if begin >= end:
                begin = log.log_start
            yield await self._between(begin, end)
            end, step = begin, min(step * 2, MOST_STEP)

    async def _between(self, begin: int, end: int) -> list[PositionPair]:
        found: list[PositionPair] = []
        consumer = self.consumer()
        (stream,) = consumer.create_message_streams(PAIRS_TOPIC, 1, [0], {0: begin})
        try:
            async for batch in stream.batches({0: end}):
                for message in batch.messages:
                    if (message.id or 0) >= end:
                        break
                    try:
                        found.append(PositionPair.decode(message.payload or b""))
                    except ValueError as error:
                        self._log.debug("{where} is no pair of positions: {error}", where=message.id, error=error)
        finally:
            await consumer.close()
        return found
