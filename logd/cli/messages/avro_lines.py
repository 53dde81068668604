"""Lines of JSON as messages of Avro, and back, in the JSON encoding of the Avro specification.

In that encoding a value of a union names its type, as in ``{"mail": {"string": "a@b"}}``, but for null; bytes are text
of one character for each byte.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from logd.avro.framing import AvroError
from logd.cli.messages.lines import LineBatch
from logd.cli.terminal.exits import complain
from logd.cli.terminal.rendering import Render, escape_controls, line_of, renderer
from logd.client.dead_letters.writer import DeadLetters
from logd.plurals import counted
from logd.protocol.message import Message
from logd.protocol.optional_packages import needing

if TYPE_CHECKING:
    from logd.avro.deserializer import AvroValue
    from logd.client.consumer.consumer import Consumer

#: The port of ``twistd logd-registry``.
DEFAULT_REGISTRY = "http://127.0.0.1:8081"
#: The format's name for ``--format``.
AVRO = "avro"

registry_option = click.option(
    "--registry",
    envvar="LOGD_REGISTRY",
    show_envvar=True,
    default=DEFAULT_REGISTRY,
    show_default=True,
    metavar="URL",
    help="The schema registry for Avro: a broker's --http, `twistd logd-registry`, or Confluent's.",
)


class SchemaFile(click.ParamType[str]):
    """The text in a file with a schema."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a file that cannot be read, or has no text."""
        try:
            with click.open_file(value, encoding="utf-8") as file:
                return str(file.read())
        except (OSError, UnicodeDecodeError) as error:
            self.fail(f"the schema in {value!r} cannot be read: {error}", param, ctx)


class AvroLineReader:
    """Makes messages of Avro out of lines of JSON, by the schema in a file."""

    def __init__(self, reactor: Any, registry: str, topic: str, schema: str) -> None:
        """Register under ``<topic>-value`` at the first line. Raises AvroError for no schema, MissingPackage."""
        # twisted.web's client takes 0.1 s to load: only for commands that need it.
        from logd.avro.registry_client import SchemaRegistryClient
        from logd.avro.serializer import AvroSerializer

        with needing("fastavro", "--avro"):
            import fastavro
        self._read: Any = fastavro.json_reader
        self._registry = SchemaRegistryClient(registry, reactor=reactor)
        self._serializer = AvroSerializer(self._registry, f"{topic}-value", schema)

    async def encode(self, batch: LineBatch, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with their payloads, JSON, as Avro.

        Raises AvroError that names the line which does not fit, RegistryRefusal, RegistryUnavailable.
        """
        values = []
        for index, message in enumerate(messages):
            place = f"line {batch.first_line + index} of {batch.source}"
            try:
                (value,) = self._read(StringIO((message.payload or b"").decode()), self._serializer.schema)
            except Exception as error:  # fastavro raises whatever it meets
                raise AvroError(f"{place} does not fit the schema in Avro's JSON encoding: {error!r}") from error
            values.append(value)
        payloads = await self._serializer.serialize(values)
        return [
            Message(payload, key=message.key, timestamp=message.timestamp, headers=message.headers)
            for payload, message in zip(payloads, messages, strict=True)
        ]

    async def close(self) -> None:
        """Close the connections to the registry."""
        await self._registry.close()


class AvroLineWriter:
    """Makes lines of JSON of messages of Avro: those of ``--format json``, with ``value`` decoded, and ``schema``."""

    def __init__(self, reactor: Any, registry: str, on_corrupt: str, descriptor: int = 1) -> None:
        """``on_corrupt`` is a consumer's; with "dead-letter" call ``store_in`` first. Raises MissingPackage."""
        from logd.avro.deserializer import AvroDeserializer
        from logd.avro.registry_client import SchemaRegistryClient

        with needing("fastavro", "--format avro"):
            import fastavro
        self._write: Any = fastavro.json_writer
        self._registry = SchemaRegistryClient(registry, reactor=reactor)
        self._make = AvroDeserializer
        before = "fail" if on_corrupt == "dead-letter" else on_corrupt
        self._deserializer = AvroDeserializer(self._registry, on_corrupt=before)
        self._skip = on_corrupt != "fail"
        self._dead_letters: DeadLetters | None = None
        #: Messages that were decoded, and left out as JSON cannot show them.
        self._unwritten = 0
        self._at_terminal = os.isatty(descriptor)

    def store_in(self, dead_letters: DeadLetters) -> None:
        """Store messages that cannot be read as dead letters."""
        self._dead_letters = dead_letters
        self._deserializer = self._make(self._registry, on_corrupt="dead-letter", dead_letters=dead_letters)

    @property
    def skipped(self) -> int:
        """The number of messages that were left out."""
        return self._deserializer.skipped + self._unwritten

    async def lines(self, messages: Sequence[Message]) -> bytes:
        """Return a line for each message. Raises AvroError, RegistryUnavailable."""
        lines = []
        for each in await self._deserializer.deserialize(messages):
            try:
                lines.append(line_of(each.message, f'"schema": {each.schema_id}, "value": {self._json(each)}'))
            except AvroError as error:
                if not self._skip:
                    raise
                if self._dead_letters is not None:
                    await self._dead_letters.add(each.message, error)
                self._unwritten += 1
        data = "".join(lines).encode()
        return escape_controls(data) if self._at_terminal else data

    def _json(self, decoded: AvroValue) -> str:
        text, message = StringIO(), decoded.message
        try:
            self._write(text, decoded.schema, [decoded.value])
        except Exception as error:  # fastavro passes on any error, such as that of values nested too deeply
            raise AvroError(
                f"message {message.id} of topic {message.topic!r}, partition {message.partition}, cannot be shown as "
                f"JSON: {error!r}"
            ) from error
        return text.getvalue().strip()

    async def close(self) -> None:
        """Close the connections to the registry."""
        await self._registry.close()


async def rendered(render: Render | AvroLineWriter, messages: Sequence[Message]) -> bytes:
    """Return the bytes to write for messages."""
    return await render.lines(messages) if isinstance(render, AvroLineWriter) else render(messages)


def renderer_of(reactor: Any, shape: str, registry: str, on_corrupt: str) -> Render | AvroLineWriter:
    """Return what renders the format called ``shape``. Raises MissingPackage for avro without fastavro."""
    if shape != AVRO:
        return renderer(shape)
    return AvroLineWriter(reactor, registry, on_corrupt)


def store_undecoded(render: Render | AvroLineWriter, consumer: Consumer, topic: str) -> None:
    """Have messages that cannot be decoded stored in a dead-letter topic; an empty name is none."""
    if topic and isinstance(render, AvroLineWriter):
        render.store_in(consumer.dead_letters(topic))


def complain_of_undecoded(render: Render | AvroLineWriter) -> None:
    """Print how many messages were left out, if any were."""
    if isinstance(render, AvroLineWriter) and render.skipped:
        complain(f"skipped {counted(render.skipped, 'message')} that could not be decoded as Avro")


async def end_rendering(render: Render | AvroLineWriter) -> None:
    """Close what a renderer has opened."""
    if isinstance(render, AvroLineWriter):
        await render.close()
