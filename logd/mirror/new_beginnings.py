"""The delays of partitions whose copies have failed and begin again."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.backoff import Backoff
from logd.mirror.settings import MirrorSettings
from logd.topic import TopicPartition


@define(eq=False)
class NewBeginnings:
    """The delay before each partition's next beginning, which grows until something of the partition is stored."""

    settings: MirrorSettings
    random: Callable[[], float]
    _backoffs: dict[TopicPartition, Backoff] = field(factory=dict, init=False)
    #: The partitions whose delay is not over.
    _waiting: set[TopicPartition] = field(factory=set, init=False)

    def __contains__(self, where: TopicPartition) -> bool:
        """Return whether a partition's delay is not over."""
        return where in self._waiting

    def begin(self, where: TopicPartition) -> float:
        """Return the delay of a partition in seconds, which begins now; ``end`` is called once it is over."""
        self._waiting.add(where)
        settings = self.settings
        return self._backoffs.setdefault(where, Backoff(settings.retry_delay, settings.retry_limit, self.random)).next()

    def end(self, where: TopicPartition) -> None:
        """Let a partition begin."""
        self._waiting.discard(where)

    def stored(self, where: TopicPartition) -> None:
        """Let the next delay of a partition be as short as the first one."""
        self._backoffs.pop(where, None)
