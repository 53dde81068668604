"""Positions of a group on the source, translated into positions on the target."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.pending_send import Sent
from logd.coord.groups.group_changes import move_positions
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.mirror.positions.pair_search import PairSearch
from logd.mirror.positions.translation import translate_group
from logd.protocol.message import Message
from logd.testing.processes.python_process import run_python
from logd.topic import TopicPartition
from tests.integration.mirror.processes import CLIENTS, CLOCK, MirrorTestCase

MESSAGES = 400


class TranslationTests(MirrorTestCase):
    """A group that fails over to the target."""

    async def test_nothing_is_missed_where_sets_move_as_they_are(self) -> None:
        """Also behind messages that were stored twice, since a mirror was killed."""
        await self._fail_over(partitions=2, on_target=2)

    async def test_nothing_is_missed_where_messages_are_divided_by_key(self) -> None:
        """The partitions of the target have messages of all those of the source."""
        await self._fail_over(partitions=2, on_target=3)

    async def _fail_over(self, partitions: int, on_target: int) -> None:
        await self.admin(self.source).create("web", partitions)
        target = self.admin(self.target)
        await target.create("web", on_target)
        tree = ZooKeeperCoordination(CLOCK, self.source.coordination)
        self.addCleanup(tree.close)
        await tree.connect()
        mirror = self.mirror()
        found = self.copied("web")
        producer = self.producer(self.source)
        sent: list[tuple[int, Sent]] = []
        for number in range(MESSAGES):
            message = Message(b"%d" % number, key=b"%d" % (number % 10))
            sent.append((number, await producer.send("web", message, partition=number % partitions)))
            await deferLater(CLOCK, 0.01)
            if number == MESSAGES // 2:
                await self.until(lambda: sum(map(len, found.values())) > MESSAGES // 4)
                await deferToThread(mirror.kill)
                mirror = self.mirror()
            if number == MESSAGES * 3 // 4:
                await move_positions(tree, "so-far", {}, self._behind(sent, partitions))
                await self._last_pairs("so-far", tree, target)  # which are of the second mirror
        every = set(range(MESSAGES))
        await self.until(lambda: {int(m.payload or b"") for ms in found.values() for m in ms} == every)
        repeats = []
        for handled in (0, 50, MESSAGES // 2, MESSAGES - 100, MESSAGES - 1):
            group = f"billing-{handled}"
            await move_positions(tree, group, {}, self._behind(sent[: handled + 1], partitions))
            translated = await translate_group(group, tree, target, self.target_consumer)
            self.assertEqual([each.where for each in translated], [("web", number) for number in range(on_target)])
            begin = {each.where.partition: each.position for each in translated}
            read = [int(m.payload or b"") for n, ms in found.items() for m in ms if (m.id or 0) >= begin[n]]
            self.assertLessEqual(set(range(handled + 1, MESSAGES)), set(read), "a message is missed")
            repeats.append(len(read) - (MESSAGES - handled - 1))
        self.assertLess(repeats[-1], MESSAGES // 2, f"repeats: {repeats}")  # not from the start
        search = PairSearch(target, self.target_consumer)
        times: dict[tuple[int, str], list[int]] = {}
        async for pairs in search.backwards():
            for pair in pairs:
                times.setdefault((pair.partition, pair.topic_uuid), []).append(pair.time)
        for each in times.values():
            self.assertLess(len(each), 2 * (max(each) - min(each)) / 1000 + 10, "about one a second")
        begin = await self._last_pairs(group, tree, target)
        answer = await deferToThread(self._command, "translate", group, "--json", "--apply", "--yes")
        self.assertEqual({row["partition"]: row["position"] for row in answer["partitions"]}, begin)
        status = await deferToThread(self._command, "status", "--json", "--over", "600")
        self.assertEqual({row["partition"] for row in status["partitions"]}, set(range(partitions)))
        self.assertGreater(status["messages_per_second"], 0)

    def _behind(self, sent: Sequence[tuple[int, Sent]], partitions: int) -> dict[TopicPartition, int]:
        """Return the position in each partition of the source behind these messages."""
        positions = {TopicPartition("web", number): 0 for number in range(partitions)}
        for number, place in sent:
            positions[TopicPartition("web", number % partitions)] = place.next_position
        return positions

    async def _last_pairs(self, group: str, tree: ZooKeeperCoordination, target: Admin) -> dict[int, int]:
        """Return where a group that has read everything begins, once the mirror has published pairs up to there."""
        while True:
            translated = await translate_group(group, tree, target, self.target_consumer)
            if translated and all(position == pair for each in translated for position, pair in each.sources.values()):
                return {each.where.partition: each.position for each in translated}
            await deferLater(CLOCK, 0.05)

    def target_consumer(self) -> Consumer:
        """Return a consumer of the target."""
        return Consumer(self.target.address, **CLIENTS)

    def _command(self, name: str, *arguments: str) -> dict[str, Any]:
        """Run ``logd mirror NAME`` and return its JSON. Blocks."""
        ends = ("--from", self.source.coordination, "--to", self.target.coordination)
        done = run_python(
            [sys.executable, "-m", "logd", "mirror", name, *arguments, *ends],
            capture_output=True,
            text=True,
            timeout=100,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        value: dict[str, Any] = json.loads(done.stdout)
        return value
