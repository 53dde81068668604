"""The target position of a group's reset, checked against the logs before anything is changed."""

from __future__ import annotations

from collections.abc import Callable

from logd.client.admin.admin import Admin
from logd.client.admin.lag import first_message
from logd.client.consumer.consumer import Consumer
from logd.client.starting_positions import Position, Time, check_start, resolve, time_of
from logd.errors import OffsetOutOfRange
from logd.interfaces import Clock
from logd.topic import TopicPartition


async def target(
    admin: Admin,
    consumer: Callable[[], Consumer],
    clock: Clock,
    where: TopicPartition,
    to: str | int | Position | Time,
) -> int:
    """Return the position that ``to`` means in a partition at this moment.

    Raises OffsetOutOfRange, naming the positions around it, for a position outside of the log or inside a message;
    ConfigurationError for a target of no known form; BrokerUnavailable when the leader does not send the messages;
    and the errors that ``Admin.describe_log`` fails with. ``consumer()`` makes a Consumer of no group.
    """
    start = check_start(to)
    if not isinstance(start, Position):
        return resolve(start, await admin.describe_log(*where, time=time_of(start)))
    position = start.value
    log = await admin.describe_log(*where, positions=(position,))
    if not log.log_start <= position <= log.visible_end:
        raise OffsetOutOfRange(f"{where}: {position} is not in the log, which is {log.log_start} to {log.visible_end}")
    (boundary,) = log.boundaries
    if position not in (boundary, log.visible_end):
        await _check_inside(consumer(), clock, where, position)
    return position


async def _check_inside(consumer: Consumer, clock: Clock, where: TopicPartition, position: int) -> None:
    """Raise OffsetOutOfRange unless a message begins at the position, which is inside an entry.

    Only a compressed entry has positions inside, one for each message (docs/protocol.md).
    """
    try:
        begin, behind = await first_message(consumer, clock, where, position)
    finally:
        await consumer.close()
    if begin < position:
        raise OffsetOutOfRange(f"{where}: {position} is inside the message at {begin}; the next one begins at {behind}")
    if begin > position:
        raise OffsetOutOfRange(f"{where}: no message begins at {position}; the next one does at {begin}")
