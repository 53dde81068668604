"""The formats of a producer's batches: one batch with one checksum, or an entry for each message."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.client.cluster.cluster import Cluster
from logd.client.settings import ProducerSettings
from logd.clientcore.message_format import LEGACY_CODECS, check_codec, check_messages, takes_only_legacy
from logd.clientcore.metadata import described
from logd.config.log import LEGACY_FORMAT
from logd.errors import LogdError, MessageTooLarge, UnsupportedVersion
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH_HEAD_BYTES, encode_batch_entry
from logd.protocol.codecs import BATCH_CODEC_NUMBERS, compress
from logd.protocol.entry import LEAST_BYTES
from logd.protocol.message import Message
from logd.protocol.message_set import DEFAULT_WRAPPER_BYTES, wrap
from logd.protocol.message_size import HEADER_MARGIN, PLAIN_BYTES, RECORD_BYTES, RECORD_MARGIN, entry_bytes
from logd.protocol.requests.metadata import MetadataV1
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED_MESSAGES

#: Bytes of an entry's length, magic and checksum, which the brokers' message.bytes does not count.
ENTRY_HEAD_BYTES = LEAST_BYTES
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
        encoded = None
        if _look_like_payloads(records):
            with suppress(TypeError):  # there may be Messages all the same
                encoded = loops.encode_payloads(records)  # type: ignore[arg-type]
        data = loops.encode_set(_messages(records)) if encoded is None else encoded
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
        encoded = None
        if _look_like_payloads(records):
            with suppress(TypeError):  # as above
                encoded = loops.encode_payload_records(records)  # type: ignore[arg-type]
        data, base, newest = loops.encode_records(_messages(records)) if encoded is None else encoded
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
    other. It changes from batches to entries where the brokers say that the topic, or their release, takes no batches;
    and back when the metadata says otherwise, ``metadata_age`` later at the earliest.

    The answer to a refused batch does not tell the reason: a damaged batch is refused with the same error. So the
    broker is asked for its metadata, and a refused batch alone is sent as entries meanwhile.
    """

    _log = Logger()

    _cluster: Cluster
    _settings: ProducerSettings
    #: The format that the producer's settings name.
    chosen: Format
    _decided: dict[str, Format] = field(factory=dict, init=False)
    _listeners: dict[str, list[Callable[[Format], None]]] = field(factory=dict, init=False)
    #: The time of each topic's fall back to entries (clock's seconds).
    _since: dict[str, float] = field(factory=dict, init=False)
    #: Topics of which messages of batches were sent as entries.
    _exchanged: set[str] = field(factory=set, init=False)
    #: Topics of which a broker is being asked.
    _asking: set[str] = field(factory=set, init=False)
    #: The time of the last warning of a batch that was refused for another reason, by topic.
    _warned: dict[str, float] = field(factory=dict, init=False)

    def of(self, topic: str) -> Format:
        """Return the format of a topic's batches: entries where the topic takes only messages of 0.7."""
        decided = self._decided.get(topic)
        if decided is not None:
            return decided
        if self.chosen.by_number and takes_only_legacy(self._cluster.known(topic)):
            return self.entries
        return self.chosen

    def decide(self, topic: str) -> Format:
        """Return the format of a topic's batches, and keep to it from now on."""
        return self._decided.setdefault(topic, self.of(topic))

    def listen(self, topic: str, changed: Callable[[Format], None]) -> None:
        """Call ``changed`` with the format when that of a topic's batches changes."""
        self._listeners.setdefault(topic, []).append(changed)

    def adapt(self, topic: str) -> None:
        """Change a topic's format if the metadata last read names another one."""
        legacy = takes_only_legacy(self._cluster.known(topic))
        if self.of(topic).by_number:
            if legacy:
                self._fall_back(topic, "its message.format is 0.7 now")
        elif not legacy and self._cluster.clock.seconds() - self._since.get(topic, math.inf) >= self._metadata_age:
            self._log.info("topic {topic} is sent batches again, as far as its brokers take them", topic=topic)
            del self._since[topic]
            self._change(topic, self.chosen)

    def refused(self, topic: str, partition: int, error: Exception) -> None:
        """Ask the broker that refused a batch for the reason, and fall back to entries if it takes none."""
        self._exchanged.add(topic)
        if self.of(topic).by_number and topic not in self._asking:
            self._asking.add(topic)
            Deferred.fromCoroutine(self._ask(topic, partition, error)).addErrback(
                lambda failure: self._log.failure("a bug: cannot find out the format of {topic}", failure, topic=topic)
            )

    @property
    def _metadata_age(self) -> float:
        return self._cluster.settings.metadata_age

    def were_exchanged(self, topic: str) -> bool:
        """Return whether messages of batches were sent as entries: then 0.7 may not take some of those in a set."""
        return topic in self._exchanged

    async def _ask(self, topic: str, partition: int, refusal: Exception) -> None:
        try:
            link = self._cluster.leader(topic, partition)
            question = MetadataV1((topic,), False)
            answer = await link.ask(await link.get(), question, self._cluster.settings.request_timeout)
            legacy = described(answer, topic).message_format == LEGACY_FORMAT
        except UnsupportedVersion:  # this version of the request is as old as batches are
            if self.of(topic).by_number:
                self._fall_back(topic, f"its broker is of an earlier release ({refusal})")
        except LogdError as error:
            self._log.debug("cannot learn why a batch of {topic} was refused: {error}", topic=topic, error=error)
        else:
            if not legacy:
                self._warn(topic, refusal)
            elif self.of(topic).by_number:
                self._fall_back(topic, "its message.format is 0.7 now")
            if legacy and self._cluster.settings.discover:  # for errors that name the setting
                self._cluster.refresh(topic)
        finally:
            self._asking.discard(topic)

    def _warn(self, topic: str, refusal: Exception) -> None:
        """Report a batch that was refused although batches are taken, at most once in ``metadata_age`` for a topic."""
        now = self._cluster.clock.seconds()
        if now - self._warned.get(topic, -math.inf) >= self._metadata_age:
            self._warned[topic] = now
            self._log.warn(
                "{refusal}. The topic takes batches, so this one was damaged on its way, or is unsound by a fault of "
                "this producer or of the broker: its messages are sent again in the plain format. If this repeats, "
                "look for the reason in the broker's log.",
                refusal=refusal,
            )  # fmt: skip

    def _fall_back(self, topic: str, reason: str) -> None:
        self._log.warn(
            "topic {topic} does not take batches: {reason}. Its messages are sent in the plain format until its "
            "metadata says otherwise.",
            topic=topic, reason=reason,
        )  # fmt: skip
        self._exchanged.add(topic)
        self._since[topic] = self._cluster.clock.seconds()
        self._change(topic, self.entries)

    def _change(self, topic: str, form: Format) -> None:
        self._decided[topic] = form
        for changed in self._listeners.get(topic, ()):
            changed(form)

    @property
    def entries(self) -> Format:
        """Return the format of entries."""
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


def _look_like_payloads(records: Sequence[Record]) -> bool:
    """Return whether the first and the last are payloads: to look at all would take half the time of the encoding."""
    return bool(records) and type(records[0]) is bytes and type(records[-1]) is bytes


def _messages(records: Sequence[Record]) -> Sequence[Message]:
    if set(map(type, records)) == {Message}:
        return records  # type: ignore[return-value]  # mypy does not see it by the types
    return [each if isinstance(each, Message) else Message(each) for each in records]


def too_large(size: int, message_bytes: int, number: int = 1) -> MessageTooLarge:
    """Return the error for message ``number`` of a set, which has ``size`` bytes as an entry."""
    return MessageTooLarge(
        f"message {number} of the set has {size - ENTRY_HEAD_BYTES} bytes with key and headers, more than "
        f"message_bytes = {message_bytes}: allow more there, and in the broker's setting message.bytes"
    )
