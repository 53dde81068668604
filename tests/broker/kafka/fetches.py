"""A client of Kafka that fetches, with kafka-python's reader of batches as the second opinion on what it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase


def fetch(
    *parts: tuple[str, int, int], most: int = 1 << 20, all_most: int = 50 << 20, wait_ms: int = 0, min_bytes: int = 1,
    version: int = 11, session: int = 0, epoch: int = -1, forgotten: Sequence[tuple[str, int]] = (),
    leader_epoch: int = -1,
) -> Any:  # fmt: skip
    """Return a Fetch of (topic, partition, offset)s, ``most`` bytes of each; ``forgotten`` leave the session."""
    topic = FetchRequest.FetchTopic
    topics = [
        topic(
            topic=name,
            partitions=[
                topic.FetchPartition(
                    partition=partition, current_leader_epoch=leader_epoch, fetch_offset=offset, log_start_offset=-1,
                    partition_max_bytes=most,
                )
            ],
        )
        for name, partition, offset in parts
    ]  # fmt: skip
    gone = FetchRequest.ForgottenTopic
    return FetchRequest[version](
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=all_most, isolation_level=0,
        session_id=session, session_epoch=epoch, topics=topics,
        forgotten_topics_data=[gone(topic=name, partitions=[partition]) for name, partition in forgotten], rack_id="",
    )  # fmt: skip


def parts_of(response: Any) -> list[Any]:
    """Return the parts of the response, in order."""
    return [part for topic in response.responses for part in topic.partitions]


def values_in(part: Any) -> list[tuple[int, bytes | None]]:
    """Return offset and value of each record of a part."""
    found: list[tuple[int, bytes | None]] = []
    records = MemoryRecords(bytes(part.records or b""))
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(each.offset, each.value) for each in batch]
    return found


def behind(part: Any) -> int:
    """Return the offset that a client asks for behind the last batch of a part, -1 without a batch."""
    records = MemoryRecords(bytes(part.records or b""))
    offset = -1
    while (batch := records.next_batch()) is not None:
        offset = batch.base_offset + batch.last_offset_delta + 1
    return offset


class FetchTestCase(KafkaTestCase):
    """A topic "t" of one partition, a native producer and a client of Kafka."""

    #: The topic of ``part`` and ``put``.
    topic = "t"

    def setUp(self) -> None:
        """Make them."""
        super().setUp()
        self.create("t")
        self.native, self.peer = self.connect(), self.kafka()

    def part(self, offset: int, peer: KafkaPeer | None = None, **more: Any) -> Any:
        """Fetch from the one partition."""
        (part,) = parts_of(self.ask(peer or self.peer, fetch((self.topic, 0, offset), **more)))
        return part

    def read_all(self, offset: int = 0, **more: Any) -> list[tuple[int, bytes | None]]:
        """Fetch until the end, as a client does: what lies before its position is left out."""
        found: list[tuple[int, bytes | None]] = []
        for _ in range(10_000):
            part = self.part(offset, **more)
            self.assertEqual(part.error_code, 0)
            if offset == part.high_watermark:
                return found
            found += [each for each in values_in(part) if each[0] >= offset]
            self.assertGreater(behind(part), offset)
            offset = behind(part)
        self.fail("the client never reaches the end")

    def put(self, *sets: bytes) -> list[int]:
        """Produce sets; return the id of the first message of each, and the end."""
        starts = [self.produce(self.native, self.topic, each).first_id for each in sets]
        return [*starts, self.log_of(self.topic).visible_end]


def values(found: Sequence[tuple[int, bytes | None]]) -> list[bytes | None]:
    """Return the values alone."""
    return [value for _, value in found]
