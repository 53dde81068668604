"""Tests of the client, the serializer and the deserializer, against a registry in the same process."""

from __future__ import annotations

import json
from importlib.util import find_spec
from io import StringIO
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseNeverReceived

from logd.avro.answers import RegistryRefusal, RegistryUnavailable, no_answer
from logd.avro.deserializer import AvroDeserializer
from logd.avro.framing import AvroError, head
from logd.avro.registry_client import SchemaRegistryClient
from logd.avro.serializer import AvroSerializer
from logd.errors import DeadLetterFailed
from logd.protocol.message import Message
from tests.schema_registry.rest.rig import RestTestCase, avro, net

HOSTILE = (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot json!", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")


def read(payload: bytes, number: int = 7) -> Message:
    """Return a message as a consumer would give it."""
    return tuple.__new__(Message, (payload, None, None, (), number, number + 9, "t", 3))


class SerdesTests(RestTestCase):
    """Values go to payloads and back."""

    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        """Make a client, or skip."""
        if find_spec("fastavro") is None:
            self.skipTest("fastavro is not installed")
        await super().setUp()
        self.client = self.another()

    def another(self, timeout: float = 30.0) -> SchemaRegistryClient:
        """Return a client that remembers nothing."""
        client = SchemaRegistryClient(f"http://127.0.0.1:{self.port.getHost().port}/", reactor=net, timeout=timeout)
        self.addCleanup(lambda: Deferred.fromCoroutine(client.close()))
        return client

    async def test_values_that_nest_deeply_are_read_up_to_a_limit(self) -> None:
        """Some thousand bytes of a recursive schema would end the process in fastavro's compiled reader."""
        text = '{"type":"record","name":"List","fields":[{"name":"next","type":["null","List"]}]}'
        list_: Any = None
        for _ in range(50):
            list_ = {"next": list_}
        (payload,) = await AvroSerializer(self.client, "lists-value", text).serialize([list_])
        hostile = payload[:5] + b"\x02" * 100_000 + b"\0"
        for schema in (None, text):
            deserializer = AvroDeserializer(self.client, schema, on_corrupt="skip")
            found = await deserializer.deserialize([read(payload), read(hostile), read(payload)])
            self.assertEqual(([each.value for each in found], deserializer.skipped), ([list_] * 2, 1))

    async def test_arrays_of_nothing_are_not_read(self) -> None:
        """Seven bytes would be 2^40 values."""
        text = '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}'
        (payload,) = await AvroSerializer(self.client, "nothing-value", text).serialize([{"a": []}])
        hostile = payload[:5] + b"\x80\x80\x80\x80\x80\x40\0"
        with self.assertRaisesRegex(AvroError, "items that take no bytes"):
            await AvroDeserializer(self.client).deserialize([read(hostile)])

    async def test_items_of_next_to_nothing_are_not_read(self) -> None:
        """A byte for each item would be thousands of values; a null here and there does no harm."""
        nulls = ",".join(f'{{"name":"n{number}","type":"null"}}' for number in range(100))
        for number, (inner, refused) in enumerate(
            (
                ('{"type":"array","items":{"type":"record","name":"I","fields":[{"name":"x","type":"int"},%s]}}', True),
                ('{"type":"map","values":{"type":"record","name":"I","fields":[%s]}}', True),
                ('["null",{"type":"record","name":"I","fields":[{"name":"next","type":["null","I"]},%s]}]', True),
                ('{"type":"record","name":"I","fields":[%s]}', False),
                (
                    '{"type":"array","items":{"type":"record","name":"I","fields":[{"name":"x","type":"int"},'
                    '{"name":"n","type":"null"},{"name":"s","type":["null","string"]}]}}',
                    False,
                ),
            )
        ):
            text = '{"type":"record","name":"R","fields":[{"name":"f","type":%s}]}' % (
                inner % nulls if "%" in inner else inner
            )
            schema_id = await self.register(f"s{number}", text)
            reader = AvroDeserializer(self.client, on_corrupt="skip")
            payload = head(schema_id) + (b"" if inner.startswith('{"type":"record"') else b"\0")
            found = await reader.deserialize([read(payload)])
            self.assertEqual((len(found), reader.skipped), (0, 1) if refused else (1, 0), inner)

    async def test_types_that_nest_deeply_by_their_names_are_the_fault_of_the_message(self) -> None:
        """A chain of types in a reference is entered at its end; such a message is passed like others."""
        rows = [{"name": "f0", "type": {"type": "record", "name": "T0", "fields": []}}]
        for number in range(1, 700):
            inner = [{"name": "t", "type": f"T{number - 1}"}, {"name": "x", "type": "int"}]
            rows.append({"name": f"f{number}", "type": {"type": "record", "name": f"T{number}", "fields": inner}})
        await self.register("chain", json.dumps({"type": "record", "name": "Chain", "fields": rows}))
        references = [{"name": "Chain", "subject": "chain", "version": 1}]
        schema_id = await self.register("end", avro("end:T699", name="End"), references=references)
        reader = AvroDeserializer(self.client, on_corrupt="skip")
        self.assertEqual((await reader.deserialize([read(head(schema_id) + b"\0" * 699)]), reader.skipped), ([], 1))

    async def test_values_are_written_and_read_by_an_older_and_a_newer_schema(self) -> None:
        """The framing is Confluent's; the schema is registered once."""
        serializer = AvroSerializer(self.client, "t-value", avro("x"))
        payloads = await serializer.serialize([{"x": 1}, {"x": -1}])
        payloads += await serializer.serialize([{"x": 2}])
        self.assertEqual(payloads, [b"\0\0\0\0\x01\x02", b"\0\0\0\0\x01\x01", b"\0\0\0\0\x01\x04"])
        self.assertEqual(self.client.requests, 1)
        newer = await AvroSerializer(self.client, "t-value", avro("x", "y=5")).serialize([{"x": 3, "y": 4}])
        messages = [read(each) for each in payloads + newer]
        own = await AvroDeserializer(self.another()).deserialize(messages)
        self.assertEqual([each.value for each in own], [{"x": 1}, {"x": -1}, {"x": 2}, {"x": 3, "y": 4}])
        self.assertEqual([each.schema_id for each in own], [1, 1, 1, 2])
        resolved = await AvroDeserializer(self.another(), avro("x", "y=5")).deserialize(messages)
        self.assertEqual([each.value["y"] for each in resolved], [5, 5, 5, 4])

    async def test_a_schema_is_asked_for_once_while_a_thousand_wait(self) -> None:
        """One that gives up does not take the answer from the others."""
        (payload,) = await AvroSerializer(self.client, "t-value", avro("x")).serialize([{"x": 1}])
        client = self.another()
        reader = AvroDeserializer(client)
        waiting = [Deferred.fromCoroutine(reader.deserialize([read(payload)])) for _ in range(1000)]
        waiting[0].addErrback(lambda failure: None)
        waiting[0].cancel()
        results = await gatherResults(waiting[1:])
        self.assertEqual(({each[0].value["x"] for each in results}, client.requests), ({1}, 1))

    async def test_references_are_resolved(self) -> None:
        """The deserializer asks for the schemas that a schema refers to."""
        await self.register("a", avro("x", name="A"))
        references = [{"name": "A", "subject": "a", "version": 1}]
        schema_id = await self.register("b", avro("a:A", name="B"), references=references)
        (found,) = await AvroDeserializer(self.client).deserialize([read(head(schema_id) + b"\x02")])
        self.assertEqual(found.value, {"a": {"x": 1}})

    async def test_unions_arrays_and_maps_of_references_are_read(self) -> None:
        """A topic with messages of several types has a union of them as its schema, by custom."""
        from fastavro import json_writer

        await self.register("f", '{"type":"fixed","name":"n.F","size":1}')
        await self.register("a", avro("x", name="n.A"))
        await self.register(
            "b", avro("a:n.A", "f:n.F", name="n.B"),
            references=[{"name": "n.A", "subject": "a", "version": 1}, {"name": "n.F", "subject": "f", "version": 1}],
        )  # fmt: skip
        bare = {"type": "record", "name": "Bare", "namespace": "", "fields": [{"name": "x", "type": "int"}]}
        await self.register("c", json.dumps({"type": "record", "name": "n.C", "fields": [{"name": "b", "type": bare}]}))
        references = [{"name": f"n.{name}", "subject": name.lower(), "version": 1} for name in "ABC"]
        one, both = {"x": 1}, {"a": {"x": 1}, "f": b"z"}
        for number, (text, data, value) in enumerate(
            (
                ('["n.A","n.B"]', b"\0\x02", one),
                ('["n.B","n.A"]', b"\0\x02z", both),
                ('["null",{"type":"array","items":"n.B"}]', b"\x02\x02\x02z\0", [both]),
                ('{"type":"map","values":["n.A","n.B"]}', b"\x02\x02k\x02\x02z\0", {"k": both}),
                ('"n.B"', b"\x02z", both),
                ('["n.C","Bare"]', b"\x02\x02", one),
            )
        ):
            schema_id = await self.register(f"u{number}", text, references=references)
            (found,) = await AvroDeserializer(self.client).deserialize([read(head(schema_id) + data)])
            self.assertEqual(found.value, value)
            json_writer(StringIO(), found.schema, [value])

    async def test_a_registry_that_refuses_to_answer_says_nothing_against_a_message(self) -> None:
        """With a wrong password each message would be left out; an id that is none is the message's fault."""
        schema_id = await self.register("t", avro("x"))
        for status, code in ((b"401 Unauthorized", 401), (b"429 Too Many Requests", 429), (b"404 Not Found", 404)):
            answer = b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}" % status
            port = net.listenTCP(0, _Saying.factory(answer), interface="127.0.0.1")
            self.addCleanup(port.stopListening)
            other = SchemaRegistryClient(f"http://127.0.0.1:{port.getHost().port}", reactor=net)
            reader = AvroDeserializer(other, on_corrupt="skip")
            with self.assertRaises(RegistryRefusal) as caught:
                await reader.deserialize([read(head(schema_id) + b"\x02")])
            self.assertEqual((caught.exception.code, reader.skipped), (code, 0))
            none = [read(head(each) + b"\x02") for each in (0, 1 << 31, (1 << 32) - 1)]
            self.assertEqual((await reader.deserialize(none), reader.skipped), ([], 3))
            await other.close()

    async def test_a_message_that_cannot_be_read_is_named_or_skipped(self) -> None:
        """With its topic, partition, id and schema."""
        schema_id = await self.register("t-value", avro("x", "y"))
        await self.register("j", "{}", schemaType="JSON")
        good = head(schema_id) + b"\x02\x02"
        for payload, words in (
            (b"", "too short"),
            (b"\x01" + good[1:], "begins with 0x01"),
            (good[:-1], f"by schema {schema_id}: "),
            (good + b"x", "1 bytes are left over"),
            (head(99) + b"\x02", "it has schema 99: "),
            (head(2) + b"\x02", "of type JSON"),
        ):
            with self.assertRaises(AvroError) as caught:
                await AvroDeserializer(self.client).deserialize([read(payload)])
            self.assertIn("message 7 of topic 't', partition 3 cannot be read", str(caught.exception))
            self.assertIn(words, str(caught.exception))
            skipping = AvroDeserializer(self.client, on_corrupt="skip")
            found = await skipping.deserialize([read(payload), read(good)])
            self.assertEqual(([each.value for each in found], skipping.skipped), ([{"x": 1, "y": 1}], 1))

    async def test_a_message_that_cannot_be_read_is_stored_as_a_dead_letter(self) -> None:
        """It is left out once it is stored; while it cannot be stored, nothing is passed."""
        schema_id = await self.register("t-value", avro("x", "y"))
        good, bad = read(head(schema_id) + b"\x02\x02"), read(head(99) + b"\x02")
        stored: list[tuple[Message, str]] = []

        class Store:
            """Stores letters in a list."""

            async def add(self, message: Message, error: BaseException) -> None:
                if stored:
                    raise DeadLetterFailed("full")
                stored.append((message, str(error)))

        reader = AvroDeserializer(self.client, on_corrupt="dead-letter", dead_letters=Store())
        found = await reader.deserialize([bad, good])
        self.assertEqual(([each.value for each in found], reader.skipped), ([{"x": 1, "y": 1}], 1))
        self.assertIs(stored[0][0], bad)
        self.assertIn("it has schema 99", stored[0][1])
        with self.assertRaises(DeadLetterFailed):
            await reader.deserialize([bad])
        self.assertRaises(ValueError, AvroDeserializer, self.client, on_corrupt="dead-letter")

    async def test_what_does_not_fit_is_refused_before_it_is_sent(self) -> None:
        """A value, a schema, and a schema that is incompatible with the subject's."""
        self.assertRaises(AvroError, AvroSerializer, self.client, "t", '"nonsense"')
        with self.assertRaisesRegex(AvroError, "value 1 does not fit the schema of t"):
            await AvroSerializer(self.client, "t", avro("x")).serialize([{"x": 1}, {"x": "one"}])
        with self.assertRaises(RegistryRefusal) as caught:
            await AvroSerializer(self.client, "t", avro("x", "y")).serialize([])
        self.assertEqual(caught.exception.code, 409)

    async def test_a_registry_that_is_away_or_no_registry_is_unavailable(self) -> None:
        """Skipping does not skip: the message may be sound. The next call asks again."""
        reader = AvroDeserializer(self.client, on_corrupt="skip")
        kept, self.registry = self.registry, None
        with self.assertRaises(RegistryUnavailable):
            await reader.deserialize([read(head(1) + b"\x02")])
        self.registry = kept
        await self.register("t", avro("x"))
        self.assertEqual((await reader.deserialize([read(head(1) + b"\x02")]))[0].value, {"x": 1})
        closed = SchemaRegistryClient("http://127.0.0.1:1", reactor=net)
        with self.assertRaisesRegex(RegistryUnavailable, "127.0.0.1:1 does not answer"):
            await closed.schema(1)
        for answer in HOSTILE:
            port = net.listenTCP(0, _Saying.factory(answer), interface="127.0.0.1")
            self.addCleanup(port.stopListening)
            other = SchemaRegistryClient(f"http://127.0.0.1:{port.getHost().port}", reactor=net)
            with self.assertRaises((RegistryUnavailable, RegistryRefusal)):
                await other.schema(1)
            await other.close()


class _Saying(Protocol):
    """Answers anything with the same bytes, and closes."""

    answer = b""

    @classmethod
    def factory(cls, answer: bytes) -> Factory:
        """Return a factory of these."""
        return Factory.forProtocol(type("Saying", (cls,), {"answer": answer}))

    def dataReceived(self, data: bytes) -> None:  # noqa: N802  # Twisted calls it
        """Answer."""
        assert self.transport is not None
        self.transport.write(self.answer)
        self.transport.loseConnection()


class TimeoutTests(SynchronousTestCase):
    """A registry that says nothing."""

    def test_the_wait_for_a_registry_is_bounded(self) -> None:
        """Every caller fails after the timeout."""

        class Silent:
            def request(self, *_: Any) -> Deferred[Any]:
                return Deferred()

        clock = Clock()
        client = SchemaRegistryClient("http://r", reactor=clock, timeout=5, agent=Silent())  # type: ignore[arg-type]
        waiting = [Deferred.fromCoroutine(client.schema(1)) for _ in range(3)]
        clock.advance(4.9)
        self.assertNoResult(waiting[0])
        clock.advance(0.2)
        for each in waiting:
            self.failureResultOf(each, RegistryUnavailable)
        self.assertEqual(clock.getDelayedCalls(), [])


class NoAnswerTests(SynchronousTestCase):
    """``no_answer``."""

    def test_the_reasons_are_words(self) -> None:
        """Twisted's error for an answer that never came shows a list of failures."""
        error = ResponseNeverReceived([Failure(ConnectionDone())])
        text = str(no_answer("http://127.0.0.1:6667", error))
        self.assertIn("does not answer: Connection was closed cleanly.; is it running", text)
        self.assertIn("does not answer: refused; is it", str(no_answer("http://h", ValueError("refused"))))
        self.assertIn("does not answer: ValueError; is it", str(no_answer("http://h", ValueError())))
