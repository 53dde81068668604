"""The unclean elections of one partition: what each may lose, and from when on all promises hold again."""

from __future__ import annotations

from attrs import define, field

from logd.broker.replication.leader import LeaderRole
from logd.log.partition import PartitionLog

#: Seconds from the last moment at which a former leader led: what it acknowledged has reached its producers by then.
ACKNOWLEDGED_SECONDS = 10.0


@define(eq=False)
class Losses:
    """The last unclean election of one partition."""

    #: The leader epoch that began with it; below the first one if there was none.
    epoch: int = field(default=-1, init=False)
    #: The end up to which the elected log was, when it was elected, as what readers had been shown: that is not lost.
    kept: int = field(default=0, init=False)
    #: False from the election until a broker leads.
    is_over: bool = field(default=True, init=False)
    #: When a broker was last seen that led in an earlier epoch, and did not know that it does no more.
    _former_led: float = field(default=0.0, init=False)

    def elected(self, epoch: int, now: float) -> None:
        """Note an unclean election."""
        self.epoch, self.kept, self.is_over, self._former_led = epoch, 0, False, now

    def look(self, log: PartitionLog, now: float) -> None:
        """Note a broker that still leads in an earlier epoch."""
        if isinstance(log.replica, LeaderRole) and log.replica.epoch < self.epoch:
            self._former_led = now

    def counts_acknowledgements(self, now: float) -> bool:
        """Return whether what a producer was told is told by those who lead since the election."""
        return self.epoch < 0 or (self.is_over and now > self._former_led + ACKNOWLEDGED_SECONDS)
