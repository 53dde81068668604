"""Messages of Avro as values, each read by the schema that wrote it, resolved to the reader's own."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from io import BytesIO
from typing import Any, Protocol

from attrs import field, frozen

from logd.avro.answers import UNKNOWN, RegistryRefusal
from logd.avro.framing import HEAD_BYTES, AvroError, schema_id_of
from logd.avro.parsing import parse
from logd.avro.registry_client import SchemaRegistryClient
from logd.avro.schemas import ParsedSchemas
from logd.checkedjson import INT32_MAX
from logd.protocol.message import Message
from logd.protocol.optional_packages import needing


@frozen
class AvroValue:
    """A value with its message, the id of the schema that wrote it, and the schema that it fits now, for fastavro."""

    message: Message
    schema_id: int
    value: Any
    schema: Any = field(repr=False)


class DeadLetterStore(Protocol):
    """Stores messages that cannot be read: the clients' DeadLetters, which Avro need not import."""

    def add(self, message: Message, error: BaseException) -> Awaitable[None]:
        """Store a message with the reason, durably."""


class AvroDeserializer:
    """Reads payloads in Confluent's framing. ``skipped`` counts messages that were left out."""

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | None = None,
        *,
        on_corrupt: str = "fail",
        dead_letters: DeadLetterStore | None = None,
    ) -> None:
        """``schema``: the text of the reader's schema; None reads each message by its own.

        ``on_corrupt`` is a consumer's: "fail" raises AvroError at a message that cannot be read, "skip" leaves it out,
        "dead-letter" leaves it out once it is stored in ``dead_letters``, as ``consumer.dead_letters(topic)`` does.
        Raises ValueError for another, AvroError for a schema that cannot be parsed, MissingPackage without fastavro.
        """
        if on_corrupt not in ("fail", "skip", "dead-letter"):
            raise ValueError(f"on_corrupt = {on_corrupt!r} is not allowed; allowed are 'fail', 'skip', 'dead-letter'")
        if (on_corrupt == "dead-letter") != (dead_letters is not None):
            raise ValueError("on_corrupt = 'dead-letter' and dead_letters = consumer.dead_letters(topic) go together")
        with needing("fastavro", "reading Avro"):
            import fastavro
            import fastavro._read_py
        self._read: Any = fastavro.schemaless_reader
        # The reader in Python ends with a RecursionError where the compiled one would end the process.
        self._read_recursive: Any = fastavro._read_py.schemaless_reader
        self._reader = None if schema is None else parse(schema, {}, "the reader's schema")
        self._schemas = ParsedSchemas(registry)
        self._skip = on_corrupt != "fail"
        self._dead_letters = dead_letters
        self.skipped = 0

    async def deserialize(self, messages: Sequence[Message]) -> list[AvroValue]:
        """Return the values of messages, in order. A schema is asked for once, however many messages have it.

        Raises AvroError that names topic, partition, id and schema of the first message that cannot be read, unless
        these are passed; what storing a dead letter fails with; RegistryUnavailable if the registry does not answer,
        and RegistryRefusal if it does not say whether it has a schema, as without the right password: both say nothing
        against the message.
        """
        values = []
        for message in messages:
            try:
                values.append(await self._value(message))
            except AvroError as error:
                if not self._skip:
                    raise
                if self._dead_letters is not None:
                    await self._dead_letters.add(message, error)
                self.skipped += 1
        return values

    async def _value(self, message: Message) -> AvroValue:
        place = f"message {message.id} of topic {message.topic!r}, partition {message.partition}"
        try:
            schema_id = schema_id_of(message.payload)
        except AvroError as error:
            raise AvroError(f"{place} cannot be read: {error}") from None
        if not 0 < schema_id <= INT32_MAX:
            raise AvroError(f"{place} cannot be read: {schema_id} is no id of a schema")
        try:
            written = await self._schemas.get(schema_id)
        except (AvroError, RegistryRefusal) as error:
            if isinstance(error, RegistryRefusal) and error.code not in UNKNOWN:
                raise
            raise AvroError(f"{place} cannot be read: it has schema {schema_id}: {error}") from error
        stream = BytesIO(message.payload or b"")
        stream.seek(HEAD_BYTES)
        read = self._read_recursive if written.recursive else self._read
        try:
            value = read(stream, written.schema, self._reader)
        except Exception as error:  # fastavro passes on any error of its reading
            raise AvroError(f"{place} cannot be read by schema {schema_id}: {error!r}") from error
        rest = len(message.payload or b"") - stream.tell()
        if rest:
            raise AvroError(f"{place} cannot be read by schema {schema_id}: {rest} bytes are left over")
        return AvroValue(message, schema_id, value, written.schema if self._reader is None else self._reader)
