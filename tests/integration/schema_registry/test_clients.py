"""Clients of Confluent's registry that others wrote, unchanged, against ours."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

from tests.integration.schema_registry.rig import RegistryProcessTestCase, record


class ConfluentClientTests(RegistryProcessTestCase):
    """confluent-kafka's SchemaRegistryClient, serializers and deserializers."""

    def setUp(self) -> None:
        """Make a client, or skip."""
        for package in ("confluent_kafka", "httpx", "authlib", "fastavro"):
            if find_spec(package) is None:
                self.skipTest(f"{package} is not installed: pip install 'confluent-kafka[avro,schemaregistry]'")
        super().setUp()
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

        self.client: Any = SchemaRegistryClient({"url": self.url})
        self.fresh: Any = lambda: SchemaRegistryClient({"url": self.url})  # without the first one's cache
        self.schema: Any = lambda *fields: Schema(record(*fields), "AVRO")

    def test_schemas_are_registered_read_and_deleted(self) -> None:
        """Each method of the client that a subject has."""
        client = self.client
        self.assertEqual(client.register_schema("users-value", self.schema("name")), 1)
        self.assertEqual(client.register_schema("users-value", self.schema("name", "mail=")), 2)
        self.assertEqual(self.fresh().register_schema("other", self.schema("name"), normalize_schemas=True), 1)
        self.assertEqual(self.fresh().get_schema(2).schema_type, "AVRO")
        self.assertEqual(json.loads(self.fresh().get_schema(1).schema_str), json.loads(record("name")))
        self.assertEqual(client.get_subjects(), ["other", "users-value"])
        self.assertEqual(client.get_versions("users-value"), [1, 2])
        latest = client.get_latest_version("users-value")
        self.assertEqual((latest.version, latest.schema_id, latest.subject), (2, 2, "users-value"))
        self.assertEqual(client.get_version("users-value", 1).schema_id, 1)
        self.assertEqual(client.lookup_schema("users-value", self.schema("name")).version, 1)
        self.assertEqual(self.fresh().get_subjects_by_schema_id(1), ["other", "users-value"])
        versions = [(each.subject, each.version) for each in self.fresh().get_schema_versions(1)]
        self.assertEqual(versions, [("other", 1), ("users-value", 1)])
        self.assertEqual(client.get_schema_types(), ["JSON", "AVRO"])
        self.assertEqual(client.delete_version("users-value", 1), 1)
        self.assertEqual(client.get_versions("users-value"), [2])
        self.assertEqual(client.delete_subject("users-value"), [2])
        self.assertEqual(client.delete_subject("users-value", permanent=True), [1, 2])
        self.assertEqual(client.get_subjects(), ["other"])

    def test_an_incompatible_schema_is_an_error_of_the_client(self) -> None:
        """With Confluent's code and reasons; levels and modes are set by the client."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        client = self.client
        client.register_schema("users-value", self.schema("name"))
        error = self.assertRaises(
            SchemaRegistryError, client.register_schema, "users-value", self.schema("name", "mail")
        )
        self.assertEqual((error.http_status_code, error.error_code), (409, 409))
        self.assertIn("READER_FIELD_MISSING_DEFAULT_VALUE", error.error_message)
        self.assertFalse(client.test_compatibility("users-value", self.schema("name", "mail")))
        self.assertTrue(client.test_compatibility("users-value", self.schema("name", "mail=")))
        client.set_compatibility("users-value", "NONE")
        self.assertEqual(client.get_compatibility("users-value"), "NONE")
        self.assertEqual(client.get_compatibility(), "BACKWARD")
        self.assertEqual(client.register_schema("users-value", self.schema("name", "mail")), 2)
        error = self.assertRaises(SchemaRegistryError, client.get_latest_version, "nothing")
        self.assertEqual((error.http_status_code, error.error_code), (404, 40401))
        self.assertEqual(client.update_mode("users-value", "READONLY"), "READONLY")
        self.assertEqual(client.get_mode("users-value"), "READONLY")

    def test_messages_are_serialized_and_read_with_another_schema(self) -> None:
        """Confluent's framing: a zero byte and the id; a reader of a later schema fills in the default."""
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        context = SerializationContext("users", MessageField.VALUE)
        payload = AvroSerializer(self.client, record("name"))({"name": "ada"}, context)
        assert payload is not None
        self.assertEqual(payload, b"\0\0\0\0\x01\x06ada")
        self.assertEqual(self.client.get_subjects(), ["users-value"])
        read = AvroDeserializer(self.fresh(), record("name", "mail="))
        self.assertEqual(read(payload, context), {"name": "ada", "mail": ""})
        latest = AvroSerializer(self.fresh(), None, conf={"auto.register.schemas": False, "use.latest.version": True})
        self.assertEqual(latest({"name": "ada"}, context), payload)

    def test_references_and_json_schemas_are_registered(self) -> None:
        """A reference's own schema is read by the deserializer; JSON Schema keeps its type."""
        from confluent_kafka.schema_registry import Schema, SchemaReference

        self.client.register_schema("address", Schema(record("street", name="Address"), "AVRO"))
        fields = [{"name": "home", "type": "Address"}]
        person = Schema(
            json.dumps({"type": "record", "name": "Person", "fields": fields}),
            "AVRO",
            [SchemaReference("Address", "address", 1)],
        )
        schema_id = self.client.register_schema("person", person)
        (reference,) = self.fresh().get_schema(schema_id).references
        self.assertEqual((reference.name, reference.subject, reference.version), ("Address", "address", 1))
        self.assertEqual(self.client.get_referenced_by("address", 1), [schema_id])
        schema_id = self.client.register_schema("json", Schema('{"type": "object"}', "JSON"))
        self.assertEqual(self.fresh().get_schema(schema_id).schema_type, "JSON")


class PythonSchemaRegistryClientTests(RegistryProcessTestCase):
    """python-schema-registry-client."""

    def setUp(self) -> None:
        """Make a client, or skip."""
        if find_spec("schema_registry") is None:
            self.skipTest("python-schema-registry-client is not installed")
        super().setUp()
        from schema_registry.client import SchemaRegistryClient

        self.client: Any = SchemaRegistryClient(self.url)

    def test_schemas_are_registered_read_and_deleted(self) -> None:
        """It looks a schema up before it registers, and takes 404 for an answer."""
        from schema_registry.client import SchemaRegistryClient, schema

        client = self.client
        one, other = schema.AvroSchema(record("name")), schema.AvroSchema(record("name", "mail="))
        self.assertEqual(client.register("users", one), 1)
        self.assertEqual(client.register("users", other), 2)
        fresh: Any = SchemaRegistryClient(self.url)
        self.assertEqual(fresh.register("users", one), 1)
        self.assertEqual(fresh.get_by_id(2).flat_schema, other.flat_schema)
        self.assertEqual(fresh.get_schema("users").version, 2)
        self.assertEqual(fresh.get_schema("users", 1).schema_id, 1)
        self.assertIsNone(fresh.get_schema("nothing"))
        self.assertEqual(fresh.get_versions("users"), [1, 2])
        self.assertEqual(fresh.check_version("users", one).version, 1)
        self.assertEqual([each.subject for each in fresh.get_schema_subject_versions(1)], ["users"])
        self.assertFalse(fresh.test_compatibility("users", schema.AvroSchema(record("name", "age"))))
        self.assertTrue(fresh.update_compatibility("FULL", "users"))
        self.assertEqual(fresh.get_compatibility("users"), "FULL")
        self.assertEqual(fresh.delete_version("users", 1), 1)
        self.assertEqual(fresh.delete_subject("users"), [2])
        self.assertEqual(fresh.get_subjects(), [])

    def test_messages_are_serialized_and_read(self) -> None:
        """By its own serializer; a schema of JSON too."""
        from schema_registry.client import schema
        from schema_registry.serializers.message_serializer import AvroMessageSerializer

        serializer: Any = AvroMessageSerializer(self.client)
        user = schema.AvroSchema(record("name"))
        payload = serializer.encode_record_with_schema("users", user, {"name": "ada"})
        self.assertEqual(payload, b"\0\0\0\0\x01\x06ada")
        self.assertEqual(serializer.decode_message(payload), {"name": "ada"})
        described = schema.JsonSchema('{"type": "object"}')
        self.assertEqual(self.client.get_by_id(self.client.register("j", described)).schema_type, "JSON")
