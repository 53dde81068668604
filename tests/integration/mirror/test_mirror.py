"""Mirrors between two clusters: messages, topics, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from logd.audit.windows import window_of
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import run_python
from tests.integration.mirror.processes import CLOCK, MirrorTestCase

PARTITIONS = 3
#: Seconds: the width of the audit's windows.
WINDOW = 0.5


class MirrorTests(MirrorTestCase):
    """Messages that reach the target."""

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

    async def test_a_replicated_topic(self) -> None:
        """The marks of leader epochs in its log stay behind: only brokers may write them."""
        options = (*self.settings, "--id", "1")
        second = BrokerProcess(str(self.folder / "second"), options, zookeeper=self.source.coordination)
        self.addCleanup(second.kill)
        second.start()
        source = self.admin(self.source)
        while len((await source.metadata(())).brokers) < 2:
            await deferLater(CLOCK, 0.1)
        await source.create("web", 1, replicas=2)
        producer = self.producer(self.source)
        await producer.send("web", b"before")
        self.mirror()
        found = self.copied("web")
        await self.until(lambda: len(found.get(0, ())) == 1)
        await source.drain((await source.describe("web")).partitions[0].leader)  # another epoch
        await producer.send("web", b"after")
        await self.until(lambda: len(found.get(0, ())) == 2)
        self.assertEqual([message.payload for message in found[0]], [b"before", b"after"])

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

    async def test_the_audit_is_complete_after_a_mirror_was_killed(self) -> None:
        """On both clusters; a message that is removed by hand from the target's log is missing to a reader."""
        producer = self.producer(self.source, audit=True, audit_window=WINDOW, server="web1", format="batch")
        await self.admin(self.source).create("web", 2)
        mirror = self.mirror("--audit", "--audit-window", str(WINDOW))
        for number in range(200):
            await producer.send("web", b"line %03d" % number, partition=number % 2)
            if number == 60:
                await self.until_mirrored(self.admin(self.target), "web")
                await deferToThread(mirror.kill)
                mirror = self.mirror("--audit", "--audit-window", str(WINDOW))
                # No window has messages from before and from behind the kill, by which some come twice.
                await deferLater(CLOCK, WINDOW)
        await producer.close()
        found = self.copied("web")
        # Before that, no audit is complete: it would be asked in vain, by one command after the other.
        await self.until(lambda: len({m.payload for ms in found.values() for m in ms}) == 200)
        totals = {}
        for cluster in (self.source, self.target):
            while True:
                status, lines = await deferToThread(self._audit, cluster)
                self.assertEqual(status, 0, lines)
                totals = self._totals(lines, "mirrored")
                if totals["expected"] == 200 and not totals["unaccounted"]:
                    break
                await deferLater(CLOCK, WINDOW)
        self.assertEqual(totals["missing"], 0)
        (segment,) = Path(self.target.data, "web-0").glob("*.log")
        at = segment.read_bytes().index(self.one_whose_loss_is_seen(found))
        with open(segment, "r+b") as file:
            os.pwrite(file.fileno(), b"X", at)
        await deferToThread(self._logd, "repair", "--broker", self.target.address, "web", "0", "--yes")
        options = ("--audit", "--audit-window", str(WINDOW), "--exit-at-end", "--broker", self.target.address)
        await deferToThread(self._logd, "consume", "web", *options)
        status, lines = await deferToThread(self._audit, self.target)
        self.assertEqual(status, 1)
        (failed,) = [line for line in lines if line["missing"]]
        self.assertEqual((failed["tier"], failed["differences"][0]["origin"]), ("consumed", "web1"))

    def one_whose_loss_is_seen(self, found: Mapping[int, Sequence[Message]]) -> bytes:
        """Return a message of partition 0 in whose window none came twice: counts tell nothing of a loss in others."""
        width = round(WINDOW * 1000)
        times: Counter[bytes] = Counter()
        windows: dict[bytes, set[int]] = {}
        for message in (message for messages in found.values() for message in messages):
            payload = message.payload or b""
            times[payload] += 1
            windows.setdefault(payload, set()).add(window_of(message.timestamp or 0, width))
        hiding = {window for payload, count in times.items() if count > 1 for window in windows[payload]}
        payloads = [message.payload or b"" for message in found[0]]
        return next(each for each in payloads if each >= b"line 100" and not windows[each] & hiding)

    def _audit(self, cluster: BrokerProcess) -> tuple[int, list[dict[str, Any]]]:
        """Return the exit status of ``logd audit`` and its lines. Blocks."""
        done = self._logd("audit", "--window", str(WINDOW), "--grace", "0", "--json", "--broker", cluster.address)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def _logd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command. Blocks."""
        return run_python([sys.executable, "-m", "logd", *arguments], capture_output=True, text=True, timeout=100)

    def _totals(self, lines: list[dict[str, Any]], tier: str) -> dict[str, int]:
        """Return the sums over all windows of a tier."""
        chosen = [line for line in lines if line["tier"] == tier]
        names = ("expected", "seen", "missing", "duplicated", "unaccounted")
        return {name: sum(line[name] for line in chosen) for name in names}

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
