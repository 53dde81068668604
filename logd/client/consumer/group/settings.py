"""Settings of a consumer in a group: one frozen, validated object."""

from __future__ import annotations

import attrs

from logd.client.setting_checks import one_of, seconds
from logd.client.settings import DAY
from logd.coord.groups.records import Timing


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Settings of a consumer's part in its group. Raises ConfigurationError for a value that is not allowed."""

    #: When a message counts as handled: once the next one is asked for ("taken"), or once ``stream.handled`` was
    #: called with it ("handled").
    commit: str = attrs.field(default="taken", validator=one_of("taken", "handled"))
    #: Seconds between commits; 0: only when partitions are given back, and by ``consumer.commit()``.
    commit_interval: float = attrs.field(default=5.0, validator=seconds(0.0, DAY))
    #: Seconds for which changes of consumers, brokers and topics are gathered before a rebalance.
    rebalance_delay: float = attrs.field(default=0.05, validator=seconds(0.0, 3600.0))
    #: Seconds before partitions that another consumer still owns are claimed again; doubled each time, with jitter ...
    conflict_delay: float = attrs.field(default=0.1, validator=seconds(0.001, 3600.0))
    #: ... up to this.
    conflict_delay_limit: float = attrs.field(default=2.0, validator=seconds(0.001, 3600.0))
    #: Seconds for which a Deferred that ``on_revoked`` returns is waited for.
    revoke_timeout: float = attrs.field(default=5.0, validator=seconds(0.0, 3600.0))
    #: Seconds that committing, giving partitions back and signing off may take when the consumer is closed.
    leave_timeout: float = attrs.field(default=10.0, validator=seconds(0.001, 3600.0))
    #: Seconds without contact after which the tree gives this consumer's partitions to others; the consumer itself
    #: stops at two thirds of that. (Does not apply to a given ``coordination``.)
    session_timeout: float = attrs.field(default=10.0, validator=seconds(0.1, 3600.0))

    @property
    def timing(self) -> Timing:
        """Return the same values as a membership takes them."""
        return Timing(
            settle=self.rebalance_delay,
            first_wait=self.conflict_delay,
            longest_wait=max(self.conflict_delay, self.conflict_delay_limit),
            commit_interval=self.commit_interval,
            leave=self.leave_timeout,
        )
