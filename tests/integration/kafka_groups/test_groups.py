"""Consumers of confluent-kafka and kafka-python share a topic: killed ones, static ones, cooperative ones."""

from __future__ import annotations

from logd.client.consumer.consumer import Consumer
from logd.coord.groups.member_registration import KafkaMembers
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from tests.integration.clusters import CLOCK, LONG_SESSION_MS
from tests.integration.kafka_groups.rig import KafkaClusterTestCase


class GroupsTests(KafkaClusterTestCase):
    """One broker, and a topic of four partitions."""

    count = 1
    session_ms = LONG_SESSION_MS

    async def produce(self, name: str) -> set[str]:
        """Send twenty messages to each partition; return them."""
        producer = self.producer()
        sent = set()
        for partition in range(4):
            payloads = [f"{name}-{partition}-{number}" for number in range(20)]
            await producer.send("t", MessageSet([Message(each.encode()) for each in payloads]), partition=partition)
            sent.update(payloads)
        return sent

    async def test_three_members_one_of_which_is_killed(self) -> None:
        """Clients of two libraries in one group; the others take over after the session timeout."""
        await self.admin().create("t", 4)
        members = [
            self.member("confluent", partition_assignment_strategy="range"),
            self.member("confluent", partition_assignment_strategy="range"),
            self.member("kafka"),
        ]
        await self.settled(members, lambda shares: shares == [1, 1, 2])
        sent = await self.produce("first")
        await self.until(lambda: sent <= set().union(*(member.got for member in members)))
        killed = members.pop(0)
        killed.end()
        sent |= await self.produce("second")
        await self.until(lambda: sent <= set().union(killed.got, *(member.got for member in members)))
        await self.settled(members, lambda shares: shares == [2, 2])

    async def test_cooperative_and_static_members(self) -> None:
        """A second member takes half, without a stop of the rest; a static one that starts again is not noticed."""
        await self.admin().create("t", 4)
        settings = {"partition_assignment_strategy": "cooperative-sticky", "session_timeout_ms": 20_000}
        first = self.member("confluent", group_instance_id="one", **settings)
        await self.settled([first], lambda shares: shares == [4])
        second = self.member("confluent", group_instance_id="two", **settings)
        await self.settled([first, second], lambda shares: shares == [2, 2])
        moved = [event for event in first.events if event[0] == "revoked"]
        self.assertEqual([len(words) for _, *words in moved], [2])
        second.end()
        await self.until(lambda: second.ended)
        events = len(first.events)
        again = self.member("confluent", group_instance_id="two", **settings)
        await self.settled([first, again], lambda shares: shares == [2, 2])
        self.assertEqual(again.owned, second.owned)
        self.assertEqual(len(first.events), events)

    async def test_a_group_moves_from_native_to_kafka_and_back(self) -> None:
        """Each goes on where the other has left; while one kind has members, the other is refused."""
        await self.admin().create("t", 4)
        first = await self.produce("first")
        native = self.native()
        self.assertEqual(await self.read(native, len(first)), first)
        await native.close()
        second = await self.produce("second")
        member = self.member("confluent")
        await self.until(lambda: second <= member.got and member.counted("done") == member.counted("got"))
        self.assertLessEqual(len(member.got - second), 1)  # the last message was still in the application's hands
        refused = self.native()
        with self.assertRaises(KafkaMembers):
            await self.read(refused, 1)
        member.end("KILL")
        third = await self.produce("third")
        last = self.native()
        await refused.close()
        found: set[str] = set()
        while not found:
            try:
                found = await self.read(last, len(third))
            except KafkaMembers:  # the killed member's session lasts a little longer
                await last.close()
                last = self.native()
                self.assertEqual(found - third, set())
        self.assertEqual(third - found, set())

    def native(self) -> Consumer:
        """Return a native consumer of the same group."""
        consumer = Consumer(group="g", zookeeper=self.tree.hosts, start="earliest", reactor=CLOCK)
        self.addCleanup(consumer.close)
        return consumer

    async def read(self, consumer: Consumer, count: int) -> set[str]:
        """Read that many messages as a native consumer."""
        (stream,) = consumer.create_message_streams("t", 1)
        found: set[str] = set()
        async for message in stream:
            found.add((message.payload or b"").decode())
            if len(found) == count:
                break
        return found
