"""Choices of a message's partition: at random, by a key, or by the application's own function (paper section 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from random import Random
from typing import SupportsIndex

from attrs import define, field, frozen
from twisted.logger import Logger
from zope.interface import implementer

from logd.client.interfaces import IPartitioner
from logd.clientcore.metadata import TopicView
from logd.clientcore.partition_numbers import in_words, is_among
from logd.errors import WrongPartition
from logd.protocol.key_placement import partition_of_key

#: The partition number that leaves the choice to the broker (docs/protocol.md, Produce).
BROKER_CHOOSES = -1

#: ``(topic, key, partitions) -> partition``: what an application may pass in place of an IPartitioner.
ChoosePartition = Callable[[str, bytes | None, Sequence[int]], int]


@implementer(IPartitioner)
@define
class RandomPartitioner:
    """A random partition, kept until a batch for it is complete: spread evenly over time, in large batches."""

    random: Random = field(factory=Random)
    _current: dict[str, int] = field(factory=dict, init=False)

    def choose(self, topic: str, key: bytes | None, partitions: Sequence[int]) -> int:
        """Return the topic's current partition, or a new one."""
        chosen = self._current.get(topic)
        if chosen is None or not is_among(chosen, partitions):
            chosen = self._current[topic] = self.random.choice(partitions)
        return chosen

    def sealed(self, topic: str, partition: int) -> None:
        """Forget the current partition."""
        if self._current.get(topic) == partition:
            del self._current[topic]


@implementer(IPartitioner)
@define
class KeyedPartitioner:
    """Messages with a key go to the partition of ``partition_of_key``, those without to a random one.

    A producer in any language finds the same partition: crc32 is the zlib polynomial, unsigned, over the key's bytes,
    and the partitions are all of the topic's, ascending.
    """

    without_key: RandomPartitioner = field(factory=RandomPartitioner)

    def choose(self, topic: str, key: bytes | None, partitions: Sequence[int]) -> int:
        """Return the key's partition."""
        if key is None:
            return self.without_key.choose(topic, None, partitions)
        return partitions[partition_of_key(key, len(partitions))]

    def sealed(self, topic: str, partition: int) -> None:
        """Let messages without a key move on."""
        self.without_key.sealed(topic, partition)


@implementer(IPartitioner)
@frozen
class FunctionPartitioner:
    """A partitioner that calls a function of the application."""

    function: ChoosePartition

    def choose(self, topic: str, key: bytes | None, partitions: Sequence[int]) -> int:
        """Return the function's choice. Raises ValueError if it is not one of the partitions."""
        return _checked(self.function(topic, key, partitions), topic, partitions)

    def sealed(self, topic: str, partition: int) -> None:
        """Do nothing: a function keeps no state."""


@implementer(IPartitioner)
@frozen
class GuardedPartitioner:
    """An application's own partitioner, whose errors fail the send that it chooses for and harm nothing else."""

    _log = Logger()

    inner: IPartitioner

    def choose(self, topic: str, key: bytes | None, partitions: Sequence[int]) -> int:
        """Return the partitioner's choice. Raises ValueError if it is not one of the partitions."""
        return _checked(self.inner.choose(topic, key, partitions), topic, partitions)

    def sealed(self, topic: str, partition: int) -> None:
        """Tell the partitioner; log its error."""
        try:
            self.inner.sealed(topic, partition)
        except Exception:
            self._log.failure("sealed of a partitioner failed")


def _checked(chosen: object, topic: str, partitions: Sequence[int]) -> int:
    """Return the choice of an application. Raises ValueError if it is not one of the partitions."""
    if not (isinstance(chosen, SupportsIndex) and is_among(index(chosen), partitions)):
        has = in_words(partitions)
        raise ValueError(f"the partitioner chose {chosen!r} for topic {topic!r}, which has partitions {has}")
    return chosen  # type: ignore[return-value]  # an integer of numpy, say, is as good as an int


def as_partitioner(given: IPartitioner | ChoosePartition | None) -> IPartitioner:
    """Return the IPartitioner for the argument of a Producer; None means KeyedPartitioner."""
    if given is None:
        return KeyedPartitioner()
    if type(given) in (KeyedPartitioner, RandomPartitioner):
        return given  # type: ignore[return-value]
    if IPartitioner.providedBy(given):
        return GuardedPartitioner(given)
    if callable(given):
        return FunctionPartitioner(given)
    raise TypeError(f"partitioner = {given!r} is not allowed; allowed is an IPartitioner or a function")


def given_partition(partition: int | None, view: TopicView | None) -> int:
    """Return the partition that a send names, or BROKER_CHOOSES. Raises WrongPartition, and TypeError for no number."""
    if partition is None:
        return BROKER_CHOOSES
    if not isinstance(partition, int):
        try:
            partition = index(partition)  # an integer of numpy, say
        except TypeError:
            raise TypeError(f"a partition is a whole number, not {type(partition).__name__}") from None
    if not 0 <= partition < 1 << 31:
        raise WrongPartition(f"partition {partition} is not allowed; allowed is a whole number from 0")
    if view is not None and not is_among(partition, view.partitions):
        raise WrongPartition(f"topic {view.name!r} has no partition {partition}; it has {in_words(view.partitions)}")
    return partition
