"""Settings of the clients: one frozen, validated object for each role, handed down to its parts."""

from __future__ import annotations

import attrs

from logd.audit.windows import DEFAULT_WIDTH
from logd.client.setting_checks import one_of, seconds, server_name, switch, text_or_none, topic_or_none, whole
from logd.clientcore import defaults
from logd.errors import ConfigurationError

#: The broker's default frame limit, less 64 KiB for the names and numbers around the sets of one request.
LARGEST_REQUEST = (16 << 20) - (64 << 10)
LARGEST_BYTES = 1 << 40
DAY = 24 * 60 * 60.0
#: The longest timeout of a producer, in seconds.
LONGEST_DELIVERY = 7 * DAY


@attrs.frozen(kw_only=True)
class LinkSettings:
    """Settings of connections to brokers. Raises ConfigurationError for a value that is not allowed."""

    #: Seconds that one attempt to connect may take.
    connect_timeout: float = attrs.field(default=defaults.CONNECT_TIMEOUT, validator=seconds(0.001, DAY))
    #: Seconds to wait for an answer before the connection is closed.
    request_timeout: float = attrs.field(default=defaults.REQUEST_TIMEOUT, validator=seconds(0.001, DAY))
    #: Seconds before the second attempt at any operation that failed; doubled each time, with jitter.
    retry_delay: float = attrs.field(default=defaults.RETRY_DELAY, validator=seconds(0.0, DAY))
    #: The longest such delay, in seconds.
    retry_delay_limit: float = attrs.field(default=defaults.RETRY_DELAY_LIMIT, validator=seconds(0.0, DAY))
    #: Largest accepted answer, in bytes.
    frame_bytes: int = attrs.field(default=64 << 20, validator=whole(1024, 1 << 30, "bytes"))
    #: Seconds after which metadata is read again even when nothing went wrong.
    metadata_age: float = attrs.field(default=300.0, validator=seconds(0.001, 7 * DAY))
    #: Ask the brokers for the leaders of partitions. False behind a load balancer: one address, and the broker chooses
    #: the partition.
    discover: bool = attrs.field(default=True, validator=switch)
    #: Whom to connect as; None for LOGD_USER of the environment, "" for nobody.
    user: str | None = attrs.field(default=None, validator=text_or_none)
    #: The user's password, or a file with it, which is read for each connection. Without both, LOGD_PASSWORD or
    #: LOGD_PASSWORD_FILE of the environment.
    password: str | None = attrs.field(default=None, validator=text_or_none, repr=False)
    password_file: str | None = attrs.field(default=None, validator=text_or_none)


@attrs.frozen(kw_only=True)
class ProducerSettings:
    """Settings of a Producer. Raises ConfigurationError for a value that is not allowed."""

    #: 0: no answer; 1: appended; n > 1: in n copies; -1: flushed, and in every in-sync copy.
    acks: int = attrs.field(default=-1, validator=whole(-1, 32767))
    #: "batch": one batch with one checksum for many messages; "plain": an entry for each message.
    format: str = attrs.field(default="plain", validator=one_of("batch", "plain"))
    #: The compression of batches; lz4 is for the format "batch" alone.
    compression: str = attrs.field(default="none", validator=one_of("none", "gzip", "snappy", "lz4", "zstd"))
    #: A batch of one partition leaves when it holds this many messages ...
    batch_messages: int = attrs.field(default=10_000, validator=whole(1, 1 << 30))
    #: ... or this many bytes; a set that is larger is split.
    batch_bytes: int = attrs.field(default=defaults.BATCH_BYTES, validator=whole(1, LARGEST_REQUEST, "bytes"))
    #: ... or when its first message has waited this many seconds.
    linger: float = attrs.field(default=0.0, validator=seconds(0.0, DAY))
    #: Bytes of messages held, waiting or in flight, before ``send`` waits. Each set counts 900 bytes more, and
    #: each message 48, for the objects about them.
    buffer_bytes: int = attrs.field(default=32 << 20, validator=whole(1, LARGEST_BYTES, "bytes"))
    #: Sends that may wait for room before ``send`` fails with ProducerBufferFull.
    max_waiting: int = attrs.field(default=10_000, validator=whole(0, 1 << 30))
    #: Seconds from ``send`` until a set that could not be delivered fails.
    delivery_timeout: float = attrs.field(default=defaults.DELIVERY_TIMEOUT, validator=seconds(0.001, LONGEST_DELIVERY))
    #: Batches of one partition that may be unanswered at a time.
    max_in_flight: int = attrs.field(default=10, validator=whole(1, 1000))
    #: Largest single message, in bytes of its entry without the length field, like the brokers' message.bytes.
    message_bytes: int = attrs.field(default=1_000_000, validator=whole(1, LARGEST_REQUEST, "bytes"))
    #: Have the brokers create topics that do not exist, where they allow it; False: wait until a topic exists.
    create_topics: bool = attrs.field(default=True, validator=switch)
    #: When the broker refuses a message as too large: "fail" fails all that travels with it; "skip" leaves it out,
    #: delivers the rest in order, and counts it in ``Sent.skipped``. (acks=0 has no answers.)
    on_too_large: str = attrs.field(default="fail", validator=one_of("fail", "skip"))
    #: Give each message its time and the header ``server``, and publish counts of the acknowledged ones to ``_audit``.
    audit: bool = attrs.field(default=False, validator=switch)
    #: The width of the audit's windows, in seconds: the same for all that are compared.
    audit_window: float = attrs.field(default=DEFAULT_WIDTH / 1000, validator=seconds(0.001, DAY))
    #: The name of this server in the audit; empty for the machine's host name.
    server: str = attrs.field(default="", validator=server_name)

    def __attrs_post_init__(self) -> None:
        if self.audit and self.acks == 0:
            raise ConfigurationError(
                "audit = True is not allowed with acks = 0: only acknowledged messages are counted"
            )
        if self.compression == "lz4" and self.format == "plain":
            raise ConfigurationError("compression = 'lz4' is not allowed with format = 'plain'; allowed is 'batch'")

    @property
    def joining_seconds(self) -> float:
        """Return the seconds for which messages join one that waits: it fails with it, so early by as much at most."""
        return max(self.linger, self.delivery_timeout / 10)


@attrs.frozen(kw_only=True)
class ConsumerSettings:
    """Settings of a Consumer: fetches and damage. Raises ConfigurationError for a value that is not allowed."""

    #: Raw bytes held ahead of the application, over all partitions of the consumer (at least 256 for each, and the
    #: current entry if that is larger).
    prefetch_bytes: int = attrs.field(default=8 << 20, validator=whole(1024, LARGEST_BYTES, "bytes"))
    #: Raw bytes of one partition in one fetch.
    fetch_bytes: int = attrs.field(default=1 << 20, validator=whole(64, 512 << 20, "bytes"))
    #: Seconds that a broker may hold a fetch back while there is nothing new.
    max_wait: float = attrs.field(default=0.5, validator=seconds(0.0, 3600.0))
    #: A consumer of more partitions than this keeps a fetch session with each broker, in which a request names only
    #: what has changed. For few partitions, naming all of them in each request costs less.
    session_partitions: int = attrs.field(default=100, validator=whole(0, 1 << 30))
    #: When an entry stays damaged after ``corrupt_retries`` further fetches: the stream fails, skips it, or goes on
    #: once its bytes are stored in the topic ``dead_letters``.
    on_corrupt: str = attrs.field(default="fail", validator=one_of("fail", "skip", "dead-letter"))
    corrupt_retries: int = attrs.field(default=defaults.CORRUPT_RETRIES, validator=whole(0, 1000))
    #: When a position is gone (retention) or never existed: continue at an end of the log, or fail the stream.
    on_out_of_range: str = attrs.field(default="earliest", validator=one_of("earliest", "latest", "fail"))
    #: Largest decompressed size of one compressed wrapper, in bytes.
    max_decompressed: int = attrs.field(default=64 << 20, validator=whole(1, 1 << 31, "bytes"))
    #: Largest number of messages in one compressed wrapper.
    max_decompressed_messages: int = attrs.field(default=1_000_000, validator=whole(1, 1 << 31))
    #: Largest accepted entry, in bytes; a greater length counts as damage.
    message_bytes: int = attrs.field(default=defaults.ENTRY_BYTES, validator=whole(1, 1 << 31, "bytes"))
    #: Messages decoded at a time, which bounds the objects held.
    decode_messages: int = attrs.field(default=2000, validator=whole(1, 1 << 20))
    #: The topic for dead letters: needed by on_corrupt "dead-letter", and the default of ``stream.handle``.
    dead_letters: str = attrs.field(default="", validator=topic_or_none)
    #: Seconds for which a dead letter is tried again while its topic cannot be written; then the stream fails.
    dead_letter_timeout: float = attrs.field(default=30.0, validator=seconds(0.001, DAY))
    #: Publish counts of the messages that streams hand over to ``_audit``. Raw bytes are not counted.
    audit: bool = attrs.field(default=False, validator=switch)
    #: The width of the audit's windows, in seconds: the same for all that are compared.
    audit_window: float = attrs.field(default=DEFAULT_WIDTH / 1000, validator=seconds(0.001, DAY))
    #: The name of this server in the audit; empty for the machine's host name.
    server: str = attrs.field(default="", validator=server_name)

    def __attrs_post_init__(self) -> None:
        if self.on_corrupt == "dead-letter" and not self.dead_letters:
            raise ConfigurationError("on_corrupt = 'dead-letter' needs a topic: give dead_letters='NAME' too")
