"""The formats of a producer's batches: one batch with one checksum, or an entry for each message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import field, frozen
from twisted.logger import Logger

from logd.client.cluster.cluster import Cluster
from logd.client.settings import ProducerSettings
from logd.clientcore.message_format import LEGACY_CODECS, check_codec, check_messages, takes_only_legacy
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH_HEAD_BYTES, encode_batch_entry
from logd.protocol.codecs import BATCH_CODEC_NUMBERS, compress
from logd.protocol.message import Message
from logd.protocol.message_set import DEFAULT_WRAPPER_BYTES, wrap
from logd.protocol.message_size import HEADER_MARGIN, PLAIN_BYTES, RECORD_BYTES, RECORD_MARGIN, entry_bytes
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED_MESSAGES

#: A message that is only a payload is kept as its payload, which saves an object for each.
Record = bytes | Message


class Format(Protocol):
    """The way in which a producer encodes its batches."""

    @property
    def head_bytes(self) -> int:
        """Return the bytes of a batch without messages."""
        ...

    @property
    def payload_overhead(self) -> int:
        """Return the most bytes that a message takes beside its payload, if it has nothing else."""
        ...

    @property
    def most_messages(self) -> int:
        """Return the largest number of messages in a batch."""
        ...

    @property
    def by_number(self) -> bool:
        """Return whether a batch is one entry, in which a message's position follows from its number."""
        ...

    def size(self, message: Message) -> int:
        """Return the bytes of a message: an upper bound if ``by_number``, else the exact number."""
        ...

    def encode(self, records: Sequence[Record], codec: str) -> tuple[bytes, str]:
        """Return the encoded records, and the codec that was used: "none" if compressing would gain nothing."""
        ...


@frozen
class EntriesFormat:
    """An entry for each message, or wrappers of compressed entries; readable by clients of 0.7 where it is magic 0."""

    head_bytes: int = 0
    payload_overhead: int = PLAIN_BYTES
    most_messages: int = 1 << 30
    by_number: bool = False
    #: The largest wrapper: brokers count it as one message.
    most_wrapper_bytes: int = DEFAULT_WRAPPER_BYTES

    def size(self, message: Message) -> int:
        """See Format."""
        return entry_bytes(message)

    def encode(self, records: Sequence[Record], codec: str) -> tuple[bytes, str]:
        """See Format."""
        payloads = _payloads(records)
        data = loops.encode_set(_messages(records)) if payloads is None else loops.encode_payloads(payloads)
        if codec != "none":
            wrapped = wrap(_messages(records), codec, self.most_wrapper_bytes)
            if len(wrapped) < len(data):
                return wrapped, codec
        return data, "none"


@frozen
class SingleEntryFormat:
    """One batch, compressed or not, with one checksum for all its messages."""

    head_bytes: int = BATCH_HEAD_BYTES
    payload_overhead: int = RECORD_BYTES
    most_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES
    by_number: bool = True

    def size(self, message: Message) -> int:
        """See Format."""
        return entry_bytes(message) + RECORD_MARGIN + HEADER_MARGIN * len(message.headers)

    def encode(self, records: Sequence[Record], codec: str) -> tuple[bytes, str]:
        """See Format."""
        payloads = _payloads(records)
        data, base, newest = (
            loops.encode_records(_messages(records)) if payloads is None else loops.encode_payload_records(payloads)
        )
        if codec != "none":
            compressed = compress(codec, data)
            if len(compressed) < len(data):
                number = BATCH_CODEC_NUMBERS[codec]
                return encode_batch_entry(compressed, len(records), base, newest, number), codec
        return encode_batch_entry(data, len(records), base, newest), "none"


@frozen
class TopicFormats:
    """The format of each topic's batches: the producer's own, unless the topic or its brokers do not take that.

    A topic's format is decided when its first queue is made, since what is counted by one format is of no use to the
    other. It changes once at most, from batches to entries.
    """

    _log = Logger()

    _cluster: Cluster
    _settings: ProducerSettings
    #: The format that the producer's settings name.
    chosen: Format
    _decided: dict[str, Format] = field(factory=dict, init=False)
    _listeners: dict[str, list[Callable[[Format], None]]] = field(factory=dict, init=False)

    def of(self, topic: str) -> Format:
        """Return the format of a topic's batches: entries where the topic takes only messages of 0.7."""
        decided = self._decided.get(topic)
        if decided is not None:
            return decided
        if self.chosen.by_number and takes_only_legacy(self._cluster.known(topic)):
            return self._entries
        return self.chosen

    def decide(self, topic: str) -> Format:
        """Return the format of a topic's batches, and keep to it from now on."""
        return self._decided.setdefault(topic, self.of(topic))

    def listen(self, topic: str, changed: Callable[[Format], None]) -> None:
        """Call ``changed`` with the format when that of a topic's batches changes."""
        self._listeners.setdefault(topic, []).append(changed)

    def adapt(self, topic: str) -> None:
        """Fall back to entries for a topic that takes only messages of 0.7 by now, as the metadata last read says."""
        if self.of(topic).by_number and takes_only_legacy(self._cluster.known(topic)):
            self._fall_back(topic, "its message.format is 0.7 now")

    def refused(self, topic: str, error: Exception) -> None:
        """Fall back to entries: a broker refused a batch, since its release knows none or the topic takes none now.

        The metadata is read again for errors that name the setting.
        """
        if self.of(topic).by_number:
            self._fall_back(topic, f"a broker refused a batch ({error})")
            if self._cluster.settings.discover:
                self._cluster.read(topic).addErrback(lambda _: None)  # it is read again all the same, by its age

    def _fall_back(self, topic: str, reason: str) -> None:
        self._log.warn(
            "topic {topic} does not take batches: {reason}. Its messages are sent in the plain format until this "
            "producer is started again.",
            topic=topic, reason=reason,
        )  # fmt: skip
        form = self._decided[topic] = self._entries
        for changed in self._listeners.pop(topic, ()):
            changed(form)

    @property
    def _entries(self) -> Format:
        return EntriesFormat(most_wrapper_bytes=self._settings.message_bytes)

    def check(self, topic: str, messages: Sequence[Record], codec: str = "none") -> None:
        """Raise InvalidMessage for a message or a compression that the topic does not take."""
        if takes_only_legacy(self._cluster.known(topic)):
            check_messages(topic, messages)
            check_codec(topic, codec)


def format_of(settings: ProducerSettings) -> Format:
    """Return the format that a producer's settings name."""
    return (
        SingleEntryFormat() if settings.format == "batch" else EntriesFormat(most_wrapper_bytes=settings.message_bytes)
    )


def size_of(record: Record, form: Format) -> int:
    """Return the bytes of a record, as a format counts them."""
    return len(record) + form.payload_overhead if isinstance(record, bytes) else form.size(record)


def entries_codec(codec: str) -> str:
    """Return the codec in place of ``codec`` for batches whose format fell back to entries: none, if 0.7 has it not."""
    return codec if codec in LEGACY_CODECS else "none"


def _payloads(records: Sequence[Record]) -> list[bytes] | None:
    """Return the records if all are payloads alone, else None."""
    kinds = set(map(type, records))
    return list(records) if kinds == {bytes} else None  # type: ignore[arg-type]  # mypy does not see it by the types


def _messages(records: Sequence[Record]) -> list[Message]:
    return [each if isinstance(each, Message) else Message(each) for each in records]
