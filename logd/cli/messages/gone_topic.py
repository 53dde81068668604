"""Ends work up to the present end of a topic once the topic is gone: that end would never come."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.client.admin.admin import Admin
from logd.clientcore.metadata import described
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.topics import read_topic
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError, UnknownTopic
from logd.interfaces import Clock
from logd.protocol.requests.metadata import MetadataResponseV1

#: Seconds between two looks at the topic.
LOOK_SECONDS = 1.0
#: Looks one after the other that do not find the topic: a broker that has just begun may not know it yet.
LOOKS = 2


async def read_while_there(
    clock: Clock, admin: Admin, topic: str, uuid: str, reading: Coroutine[Deferred[Any], Any, None]
) -> None:
    """Run ``reading`` to its end. Raises UnknownTopic if the topic with this uuid is deleted, or made again, before."""
    running = Deferred.fromCoroutine(reading)
    gone: list[Failure] = []

    def looked(failure: Failure) -> None:
        if not failure.check(CancelledError):
            gone.append(failure)
            running.cancel()

    looking = Deferred.fromCoroutine(_look(clock, admin, topic, uuid))
    looking.addErrback(looked)
    try:
        await running
    except CancelledError:
        if not gone:
            raise
    finally:
        looking.cancel()
    if gone:
        gone[0].raiseException()


async def _look(clock: Clock, admin: Admin, topic: str, uuid: str) -> None:
    missed = 0
    while True:
        await sleep(clock, LOOK_SECONDS)
        try:
            answer = await admin.metadata((topic,))
            if isinstance(answer, MetadataResponseV1) and not answer.cluster:
                continue  # a broker that has not reached the tree knows no other topics than those that it stores
            found = described(answer, topic).uuid
        except UnknownTopic:
            found = ""
        except LogdError:  # the brokers are away; the consumer waits for them too
            continue
        missed = missed + 1 if found != uuid else 0
        if missed == LOOKS:
            raise _gone(topic, found, "before it was read to its end")


async def check_in_tree(tree: ICoordination, topic: str, uuid: str, when: str) -> None:
    """Raise UnknownTopic, with ``when``, if the topic with this uuid was deleted, or made again, as the tree says.

    A tree that does not answer, or whose node of the topic cannot be read, says nothing.
    """
    found = uuid
    with suppress(CoordinationError, ValueError):
        try:
            found = (await read_topic(tree, topic)).uuid
        except UnknownTopic:
            found = ""
    if found != uuid:
        raise _gone(topic, found, when)


def _gone(topic: str, found: str, when: str) -> UnknownTopic:
    change = "made again" if found else "deleted"
    return UnknownTopic(f"topic {topic!r} was {change} {when}")
