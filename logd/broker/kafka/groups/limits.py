"""The bounds of groups of Kafka clients: times, numbers, and the memory that their members take together."""

from __future__ import annotations

from attrs import define, field, frozen
from twisted.logger import Logger

from logd.config.kafka import KafkaSettings


@frozen
class GroupLimits:
    """The bounds of each group. Times are in seconds."""

    #: The time for which a new group waits for further members before it shares out its partitions.
    initial_delay: float = 0.3
    session_min: float = 1.0
    session_max: float = 1800.0
    members: int = 1000

    @classmethod
    def of(cls, settings: KafkaSettings) -> GroupLimits:
        """Return the bounds that the settings name."""
        return cls(
            settings.kafka_groups_delay_ms / 1000,
            settings.kafka_groups_session_min_ms / 1000,
            settings.kafka_groups_session_max_ms / 1000,
            settings.kafka_groups_members_max,
        )


@define(eq=False)
class MemberMemory:
    """The memory of all members of all groups that a broker coordinates, in bytes."""

    _log = Logger()

    limit: int
    used: int = 0
    #: True from a refusal, which is logged, until half of the memory is free again.
    _is_short: bool = field(default=False, init=False)

    def change(self, before: int, after: int) -> bool:
        """Take ``after`` bytes in place of ``before``; return False, and change nothing, if that is beyond the limit.

        Less than before is always taken.
        """
        if after > before and self.used + after - before > self.limit:
            if not self._is_short:
                self._is_short = True
                self._log.warn(
                    "{used} of the {limit} bytes that kafka.groups.bytes allows are used: members that do not fit are "
                    "refused, and leaders whose assignments do not fit are told to try again; raise that setting",
                    used=self.used,
                    limit=self.limit,
                )
            return False
        self.used += after - before
        if 2 * self.used < self.limit:
            self._is_short = False
        return True
