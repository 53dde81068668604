"""Tests of logd.cli.messages.avro_lines, against a registry in the same process."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.avro.framing import AvroError
from logd.avro.registry_client import SchemaRegistryClient
from logd.avro.serializer import AvroSerializer
from logd.cli.messages.avro_lines import AvroLineWriter, SchemaFile
from logd.protocol.message import Message
from tests.schema_registry.rest.rig import RestTestCase, avro, net

LIST = '{"type":"record","name":"List","fields":[{"name":"next","type":["null","List"]}]}'


def read(payload: bytes, key: bytes | None = None) -> Message:
    """Return a message as a consumer would give it."""
    return tuple.__new__(Message, (payload, key, None, (), 7, 16, "t", 3))


class AvroLineWriterTests(RestTestCase):
    """``AvroLineWriter``."""

    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        """Note the registry's address, or skip."""
        if find_spec("fastavro") is None:
            self.skipTest("fastavro is not installed")
        await super().setUp()
        self.url = f"http://127.0.0.1:{self.port.getHost().port}/"

    async def payload(self, schema: str, value: Any) -> bytes:
        """Return a value as a producer sends it."""
        client = SchemaRegistryClient(self.url, reactor=net)
        self.addCleanup(lambda: Deferred.fromCoroutine(client.close()))
        (found,) = await AvroSerializer(client, "t-value", schema).serialize([value])
        return found

    def writer(self, on_corrupt: str, descriptor: int = 1) -> AvroLineWriter:
        """Return a writer that is closed with the test."""
        writer = AvroLineWriter(net, self.url, on_corrupt, descriptor)
        self.addCleanup(lambda: Deferred.fromCoroutine(writer.close()))
        return writer

    async def test_a_value_that_json_cannot_show_is_named_or_skipped(self) -> None:
        """The library shows no value of a recursive type that holds another one of its kind."""
        short, long = [await self.payload(LIST, each) for each in ({"next": None}, {"next": {"next": {"next": None}}})]
        with self.assertRaisesRegex(AvroError, "message 7 of topic 't', partition 3, cannot be shown as JSON"):
            await self.writer("fail").lines([read(short), read(long)])
        skipping = self.writer("skip")
        lines = await skipping.lines([read(short), read(long), read(short)])
        self.assertEqual((lines.count(b"\n"), skipping.skipped), (2, 1))

    async def test_a_value_that_json_cannot_show_becomes_a_dead_letter(self) -> None:
        """As one that cannot be read does."""
        stored: list[str] = []

        class LettersInMemory:
            """Keeps the reasons."""

            async def add(self, message: Message, error: BaseException) -> None:
                stored.append(str(error))

        long = await self.payload(LIST, {"next": {"next": {"next": None}}})
        storing = self.writer("dead-letter")
        storing.store_in(LettersInMemory())  # type: ignore[arg-type]  # it has what is needed
        self.assertEqual((await storing.lines([read(long)]), storing.skipped), (b"", 1))
        self.assertIn("cannot be shown as JSON", stored[0])

    async def test_control_characters_are_written_out_at_a_terminal(self) -> None:
        """The key of a message is anybody's."""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        message = read(await self.payload(avro("x"), {"x": 1}), b"\xc2\x9b2J\x7f")
        self.assertIn(rb'"\xc2\x9b2J\x7f"', await self.writer("fail", theirs).lines([message]))
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        self.addCleanup(os.close, writes)
        self.assertIn(b'"\xc2\x9b2J\x7f"', await self.writer("fail", writes).lines([message]))


class SchemaFileTests(SynchronousTestCase):
    """``SchemaFile``."""

    def test_a_file_without_text_is_refused(self) -> None:
        """Such as a file of Avro in place of its schema, or one that is not there."""
        path = Path(self.mktemp())
        read_schema = SchemaFile().convert
        self.assertIn("No such file", self.assertRaises(click.BadParameter, read_schema, str(path), None, None).message)
        path.write_bytes(b"Obj\x01\xff")
        self.assertIn("utf-8", self.assertRaises(click.BadParameter, read_schema, str(path), None, None).message)
        path.write_text(LIST)
        self.assertEqual(read_schema(str(path), None, None), LIST)
