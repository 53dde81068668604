"""Settings of a mirror: one frozen, validated object."""

from __future__ import annotations

import attrs

from logd.audit.windows import DEFAULT_WIDTH
from logd.client.setting_checks import seconds, server_name, switch, whole
from logd.client.settings import DAY, LARGEST_BYTES, LARGEST_REQUEST
from logd.mirror.topic_names import TopicChoice
from logd.protocol.slices import Bounds
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES


@attrs.frozen(kw_only=True)
class MirrorSettings:
    """Settings of a mirror. Raises ConfigurationError for a value that is not allowed."""

    topics: TopicChoice
    #: The group of consumers on the source that the mirrors share the work in.
    group: str = "mirror"
    #: Bytes of sets that are sent and not acknowledged, over all partitions.
    buffer_bytes: int = attrs.field(default=32 << 20, validator=whole(1, LARGEST_BYTES, "bytes"))
    #: The same of one partition: one that cannot be sent does not take the room of the others.
    partition_bytes: int = attrs.field(default=16 << 20, validator=whole(1, LARGEST_BYTES, "bytes"))
    #: Bytes of one set. A set costs the mirror and both brokers a few hundred microseconds, whatever its size; of more
    #: than 4 MiB, a broker's memory for it comes from the kernel anew each time.
    fetch_bytes: int = attrs.field(default=2 << 20, validator=whole(64, LARGEST_REQUEST, "bytes"))
    #: Seconds between commits of positions on the source, and pairs of positions on the target.
    commit_interval: float = attrs.field(default=1.0, validator=seconds(0.001, DAY))
    #: Seconds between looks at the topics of both sides.
    check_interval: float = attrs.field(default=10.0, validator=seconds(0.001, DAY))
    #: Seconds between looks at the ends of the source's logs.
    lag_interval: float = attrs.field(default=2.0, validator=seconds(0.001, DAY))
    #: Seconds before a partition that failed is tried again; doubled each time, with jitter, up to ``retry_limit``.
    retry_delay: float = attrs.field(default=0.5, validator=seconds(0.001, DAY))
    retry_limit: float = attrs.field(default=10.0, validator=seconds(0.001, DAY))
    #: Seconds without contact after which the tree gives this mirror's partitions to others.
    session_timeout: float = attrs.field(default=10.0, validator=seconds(0.1, 3600.0))
    #: The most bytes, decompressed, and messages of a wrapper or batch that the mirror has to open.
    max_decompressed: int = attrs.field(default=DEFAULT_MAX_DECOMPRESSED, validator=whole(1, 1 << 31, "bytes"))
    max_decompressed_messages: int = attrs.field(default=DEFAULT_MAX_DECOMPRESSED_MESSAGES, validator=whole(1, 1 << 31))
    #: Publish counts of the messages that the target has stored to ``_audit`` of the source.
    audit: bool = attrs.field(default=False, validator=switch)
    #: The width of the audit's windows, in seconds: the same for all that are compared.
    audit_window: float = attrs.field(default=DEFAULT_WIDTH / 1000, validator=seconds(0.001, DAY))
    #: The name of this server in the audit; empty for the machine's host name.
    server: str = attrs.field(default="", validator=server_name)

    @property
    def bounds(self) -> Bounds:
        """Return the bounds of what is opened."""
        return self.max_decompressed, self.max_decompressed_messages
