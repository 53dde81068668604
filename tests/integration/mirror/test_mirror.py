"""Mirrors between two clusters: messages, topics, refusals."""

from __future__ import annotations

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from tests.integration.mirror.processes import MirrorTestCase

PARTITIONS = 3


class MirrorTests(MirrorTestCase):
    """What reaches the target."""

    async def test_messages_arrive_as_they_are(self) -> None:
        """Plain messages, keys, times, headers, wrappers and batches, in their partitions and in order."""
        source, target = self.admin(self.source), self.admin(self.target)
        await source.create("web", PARTITIONS, {"retention.ms": 86_400_000})
        plain, batches = self.producer(self.source), self.producer(self.source, format="batch", compression="zstd")
        sent: dict[int, list[Message]] = {number: [] for number in range(PARTITIONS)}
        for number in range(PARTITIONS):
            full = Message(b"full", key=b"k", timestamp=1320969600000, headers=(("server", b"web1"),))
            sets = (
                [Message(b"%d" % each) for each in range(500)],
                [full],
                [Message(b"b%d" % each) for each in range(9)],
            )
            await plain.send("web", sets[0], partition=number)
            await plain.send("web", MessageSet(sets[2], "gzip"), partition=number)
            await batches.send("web", [*sets[1], *sets[2]], partition=number)
            sent[number] = [*sets[0], *sets[2], *sets[1], *sets[2]]
        self.mirror()
        await self.until_mirrored(target, "web")
        found = self.copied("web")
        await self.until(lambda: sum(map(len, found.values())) >= sum(map(len, sent.values())))
        for number, messages in sent.items():
            self.assertEqual(
                [(m.payload, m.key, m.timestamp, m.headers) for m in found[number]],
                [(m.payload, m.key, m.timestamp, m.headers) for m in messages],
            )
        there, here = await target.describe_log("web", 0), await source.describe_log("web", 0)
        self.assertEqual(there.visible_end, here.visible_end, "the same bytes")
        copy = await target.alter("web")
        cluster = (await source.metadata(())).cluster
        self.assertEqual(dict(copy.settings), {"retention.ms": "86400000", "mirrored.from": cluster})

    async def test_a_target_with_fewer_partitions_gets_messages_by_key(self) -> None:
        """Messages of one key stay together and in order; those without a key as well."""
        await self.admin(self.source).create("web", 3)
        target = self.admin(self.target)
        await target.create("web", 2)
        producer = self.producer(self.source, compression="gzip")
        keys = [b"a", b"b", b"c", b"d"]
        for number in range(50):
            await producer.send("web", [Message(b"%d" % number, key=key) for key in keys])
        self.mirror()
        found = self.copied("web")
        await self.until(lambda: sum(map(len, found.values())) >= 200)
        by_key = {key: [m for ms in found.values() for m in ms if m.key == key] for key in keys}
        for messages in by_key.values():
            self.assertEqual([m.payload for m in messages], [b"%d" % number for number in range(50)])
            self.assertEqual(len({m.partition for m in messages}), 1)

    async def test_circles_and_one_cluster_twice_are_refused(self) -> None:
        """Messages that came from the target do not go back; the same cluster at both ends ends the mirror."""
        await self.admin(self.source).create("web", 1)
        there = self.mirror(topics="web")
        await self.until_mirrored(self.admin(self.target), "web")
        self.source, self.target = self.target, self.source
        back = self.mirror("--rename", r"(.*)=back.\1", topics="web|other")
        await self.admin(self.source).create("other", 1)
        await self.until_mirrored(self.admin(self.target), "back.other")
        await self.until(lambda: "topic 'web' is not mirrored: its messages came from" in self.log_of(back))
        self.assertNotIn("back.web", await self.admin(self.target).topics())
        self.assertIsNone(there.process and there.process.poll())
        alone = self.mirror(target=self.source.address)
        await self.until(lambda: alone.process is not None and alone.process.poll() is not None)
        self.assertIn("are the same cluster", self.log_of(alone))

    async def test_mirrors_share_the_work_and_stop_cleanly(self) -> None:
        """A second mirror takes some of the partitions; after both have stopped, nothing is sent again."""
        await self.admin(self.source).create("web", 4)
        producer = self.producer(self.source)
        mirrors = [self.mirror(), self.mirror()]
        await self.until_mirrored(self.admin(self.target), "web")
        found = self.copied("web")
        for number in range(40):
            await producer.send("web", [b"%d" % number], partition=number % 4)
            if number == 20:
                mirrors[0].stop()
        await self.until(lambda: sum(map(len, found.values())) >= 40)
        mirrors[1].stop()
        again = self.mirror()
        await producer.send("web", b"last", partition=0)
        await self.until(lambda: any(m.payload == b"last" for m in found[0]))
        again.stop()
        payloads = sorted(int(m.payload or b"") for ms in found.values() for m in ms if m.payload != b"last")
        self.assertEqual(payloads, list(range(40)))
