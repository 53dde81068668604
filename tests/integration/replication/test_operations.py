"""The commands of operators at three real brokers: other replicas, a drained broker, preferred leaders."""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from logd.client.admin.admin import Admin
from logd.testing.processes.python_process import run_python
from tests.integration.clusters import LONG_SESSION_MS, ClusterTestCase
from tests.integration.commands.rig import LOGD, PATIENCE, ROOT

MESSAGES = 2_000


class OperatorTests(ClusterTestCase):
    """Three brokers, and a topic of one replica."""

    count = 3
    session_ms = LONG_SESSION_MS
    options = ("--set", "leader.balance.ms=-1")

    def logd(self, *words: str, given: bytes = b"", status: int = 0) -> Deferred[bytes]:
        """Run a command; fires with its output."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_BROKER": self.addresses, "LOGD_ZOOKEEPER": self.tree.hosts}

        def run() -> bytes:
            done = run_python([*LOGD, *words], input=given, capture_output=True, env=env, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, status, (words, done.stderr.decode()))
            return bytes(done.stdout)

        return deferToThread(run)

    async def test_a_topic_is_replicated_and_led_elsewhere(self) -> None:
        """Nothing is lost on the way, and the logs are equal in the end."""
        admin = self.admin()
        lines = b"".join(b"%d\n" % number for number in range(MESSAGES))
        await self.logd("topics", "create", "t", "--partitions", "2")
        await self.logd("produce", "t", given=lines)
        refused = await self.logd("topics", "reassign", "t", "--replicas", "3", status=1)  # no terminal, no --yes
        self.assertIn(b"\t", refused)  # the plan
        done = json.loads(await self.logd("topics", "reassign", "t", "--replicas", "3", "--yes", "--json"))
        self.assertEqual((done["complete"], len(done["partitions"])), (True, 2))
        preferred = [each.replicas[0] for each in await self.partitions(admin)]
        self.assertEqual([sorted(each.in_sync) for each in await self.partitions(admin)], [[1, 2, 3]] * 2)
        drained = json.loads(await self.logd("brokers", "drain", str(preferred[0]), "--json"))
        self.assertEqual(drained["leads"], [])
        self.assertNotIn(preferred[0], [each.leader for each in await self.partitions(admin)])
        await self.logd("elect", "t", status=1)  # it is drained
        await self.logd("brokers", "undrain", str(preferred[0]))
        await self.logd("elect")
        self.assertEqual([each.leader for each in await self.partitions(admin)], preferred)
        read = await self.logd("consume", "t", "--from", "earliest", "--exit-at-end")
        self.assertEqual(sorted(read.splitlines()), sorted(lines.splitlines()))

    async def partitions(self, admin: Admin) -> tuple[Any, ...]:
        """Return the partitions of the topic."""
        return (await admin.describe("t")).partitions
