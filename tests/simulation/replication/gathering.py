"""The settings ``flush.messages`` and ``flush.ms`` of some lives, by which leaders gather messages."""

from __future__ import annotations

from random import Random

from attrs import evolve, frozen

from logd.broker.replication.leader import LeaderRole
from logd.config import LogSettings
from logd.log.flusher import Place
from logd.log.partition import PartitionLog

#: A leader whose ``flush.ms`` is longer may show less than it has when a life ends.
LONG_SECONDS = 60.0


@frozen
class Gathering:
    """The two settings, -1 where one is not set."""

    messages: int = -1
    milliseconds: int = -1
    #: True if they are the topics' own, False if the brokers'.
    is_of_topics: bool = False

    @classmethod
    def chosen(cls, random: Random) -> Gathering:
        """Return settings by the seed; more than half of all seeds have none."""
        gathers = random.random() < 0.5
        messages, milliseconds = random.choice([-1, 3, 10_000]), random.choice([-1, 500, 600_000])
        is_of_topics = random.random() < 0.5
        return cls(messages, milliseconds, is_of_topics) if gathers else cls()

    @property
    def is_on(self) -> bool:
        """True if leaders gather messages."""
        return self.messages != -1 or self.milliseconds != -1

    @property
    def of_topics(self) -> dict[str, int]:
        """The settings with which topics are created."""
        if not self.is_of_topics:
            return {}
        return {"flush.messages": self.messages, "flush.ms": self.milliseconds}

    def of_brokers(self, settings: LogSettings) -> LogSettings:
        """Return the brokers' settings."""
        if self.is_of_topics:
            return settings
        return evolve(settings, flush_messages=self.messages, flush_ms=self.milliseconds)

    @property
    def seconds(self) -> float:
        """The time after which a leader flushes what it gathers; 0 if it may gather for longer than a life."""
        return self.milliseconds / 1000 if 0 <= self.milliseconds <= LONG_SECONDS * 1000 else 0.0


def may_gather(log: PartitionLog) -> bool:
    """Return whether a log leads and gathers messages that need not be shown before a life ends."""
    state = log.flush_state
    is_within = state.unflushed_messages < state.messages_limit and state.seconds_limit > LONG_SECONDS
    return isinstance(log.replica, LeaderRole) and state.place is Place.GATHERING and is_within
