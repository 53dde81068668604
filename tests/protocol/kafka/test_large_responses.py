"""Tests of logd.protocol.kafka.large_responses; kafka-python encodes the same at once."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.kafka import fetch, large_responses, produce
from logd.protocol.kafka.apis import API_VERSIONS, APIS
from logd.protocol.kafka.large_responses import SHARED_BYTES, STEP_ITEMS, ResponseEncoder, is_large

#: The responses that kafka-python does not write.
_WRITTEN_HERE = (produce.API_KEY, fetch.API_KEY, API_VERSIONS)
_TEXTS = ("", "name", "n" * 300)
_BYTES = (b"", b"b", b"x" * (SHARED_BYTES - 1), b"y" * SHARED_BYTES, b"z" * 70_000)
#: The items of one step of random responses.
_STEP = 5


def random_value(random: Random, field: Any, version: int) -> Any:
    """Return a value of a field of a response."""
    if field.nullable_for_version_q(version) and random.random() < 0.1:
        return None
    if field.is_struct_array():
        return [random_struct(random, field.array_of, version) for _ in range(random.choice((0, 1, 3, _STEP + 1)))]
    if field.is_array():
        return [random_value(random, field.array_of, version) for _ in range(random.randrange(3))]
    makers: dict[str, Callable[[], Any]] = {
        "string": lambda: random.choice(_TEXTS),
        "bytes": lambda: random.choice(_BYTES),
        "bool": lambda: random.random() < 0.5,
        "uuid": lambda: UUID(int=random.getrandbits(128)),
        "float64": random.random,
        "bitfield": lambda: {3, 7},
    }
    make = makers.get(field.type_str)
    return random.randrange(100) if make is None else make()


def random_struct(random: Random, struct: Any, version: int, kind: Any = None) -> Any:
    """Return a struct with a value in each field."""
    fields = struct.untagged_fields(version) + [each for each in struct.fields.values() if each.tagged_field_q(version)]
    values = {field.name: random_value(random, field, version) for field in fields}
    return (kind or struct.data_class)(**values)


class ResponseEncoderTests(SynchronousTestCase):
    """Responses of every kind at every version."""

    def test_the_same_bytes(self) -> None:
        """With few items and many, at the top and inside; the time to wait is told where there is a field for it."""
        self.patch(large_responses, "STEP_ITEMS", _STEP)
        random = Random(1)
        many = 0
        for api in APIS.values():
            if api.key in _WRITTEN_HERE:
                continue
            for version in api.versions:
                for _ in range(3):
                    kind = api.response_class
                    response = random_struct(random, kind._struct, version, kind)
                    many += is_large(response, version)
                    encoder = ResponseEncoder(response, version)
                    for _ in encoder.steps():
                        pass
                    encoded = b"".join(encoder.finish(1234))
                    if hasattr(response, "throttle_time_ms"):
                        response.throttle_time_ms = 1234
                    self.assertEqual(encoded, bytes(response.encode(version=version)), f"{api.name} {version}")
                    self.assertLessEqual(encoder.size, len(encoded))
        self.assertGreater(many, 50)

    def test_many_items(self) -> None:
        """They are encoded in as many steps, also where they are all in one item."""
        kind = APIS[3].response_class.MetadataResponseTopic
        part = kind.MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=0, leader_epoch=0, replica_nodes=[], isr_nodes=[],
            offline_replicas=[],
        )  # fmt: skip
        for topics, parts in ((10 * STEP_ITEMS, 0), (1, 10 * STEP_ITEMS), (STEP_ITEMS // 2, 20), (20, STEP_ITEMS)):
            topic = kind(error_code=0, name="t", is_internal=False, partitions=[part] * parts)
            response = APIS[3].response(
                throttle_time_ms=0, brokers=[], cluster_id=None, controller_id=0, topics=[topic] * topics
            )
            self.assertTrue(is_large(response, 7))
            steps = sum(1 for _ in ResponseEncoder(response, 7).steps())
            self.assertIn(steps, range(9, 31), f"{topics} topics of {parts} partitions")

    def test_large_bytes(self) -> None:
        """They are not copied."""
        kind = APIS[15].response_class.DescribedGroup
        metadata = b"m" * SHARED_BYTES
        member = kind.DescribedGroupMember(
            member_id="m", group_instance_id=None, client_id="c", client_host="h", member_metadata=metadata,
            member_assignment=b"a",
        )  # fmt: skip
        group = kind(
            error_code=0, group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range",
            members=[member] * 30, authorized_operations=None,
        )  # fmt: skip
        response = APIS[15].response(throttle_time_ms=0, groups=[group])
        self.assertTrue(is_large(response, 4))
        encoder = ResponseEncoder(response, 4)
        list(encoder.steps())
        self.assertEqual(sum(piece is metadata for piece in encoder.finish(0)), 30)

    def test_small_responses(self) -> None:
        """They are encoded at once."""
        self.assertFalse(is_large(APIS[12].response(throttle_time_ms=0, error_code=0), 3))
        self.assertFalse(is_large(APIS[14].response(throttle_time_ms=0, error_code=0, assignment=b"a" * 10_000), 3))
        row = APIS[16].response_class.ListedGroup
        for count, large in ((STEP_ITEMS // 2, False), (STEP_ITEMS + 1, True)):
            groups = [row(group_id="g", protocol_type="consumer")] * count
            response = APIS[16].response(throttle_time_ms=0, error_code=0, groups=groups)
            self.assertEqual(is_large(response, 2), large)
