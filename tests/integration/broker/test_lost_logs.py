"""Real brokers whose disk is replaced, a folder removed or a backup restored: no id is ever given twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from logd.client.admin.admin import Admin
from logd.errors import PartitionOffline
from logd.log.recovery.lost_log_replacement import JUMP
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import run_python
from tests.integration.clusters import CLIENTS, ClusterTestCase
from tests.integration.peers import PATIENCE

LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]
MESSAGES = 20


class LostLogTests(ClusterTestCase):
    """One broker with a tree in another process; topic "t" has two partitions with messages.

    A broker whose predecessor was killed joins once the former session is over, and serves nothing before: it waits for
    the tree for longer than that takes on a busy machine.
    """

    count = 1
    options = ("--set", "zookeeper.timeout.ms=60000")

    def setUp(self) -> Deferred[None]:  # type: ignore[override]  # trial waits for it
        """Fill the topic."""
        starting = super().setUp()
        starting.addCallback(lambda _: Deferred.fromCoroutine(self.fill()))
        return starting

    @property
    def data(self) -> Path:
        """The broker's data directory."""
        return Path(self.brokers[0].data)

    async def fill(self) -> None:
        """Create the topic, and send messages that are acknowledged with acks=-1."""
        await self.admin().create("t", 2)
        self.ends = [await self.send(partition) for partition in (0, 1)]

    async def send(self, partition: int, count: int = MESSAGES) -> int:
        """Send ``count`` messages; return the position behind them."""
        producer = self.producer()
        sent = await producer.send("t", MessageSet([Message(b"m%d" % n) for n in range(count)]), partition=partition)
        await producer.close()
        return int(sent.next_position)

    async def answer(self, partition: int) -> tuple[int, int] | None:
        """Return the start and end of a partition's log, None when it is offline."""
        admin = Admin(self.in_broker().address, request_timeout=PATIENCE, **CLIENTS)
        try:
            found = await admin.describe_log("t", partition)
        except PartitionOffline:
            return None
        finally:
            await admin.close()
        return found.log_start, found.visible_end

    async def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of logd to its end."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        run = partial(
            run_python, [*LOGD, *arguments], capture_output=True, text=True, env=environment, timeout=PATIENCE
        )
        return await deferToThread(run)

    def in_broker(self) -> BrokerProcess:
        """Return the broker's process."""
        return self.brokers[0]

    async def test_a_new_disk_serves_nothing_until_the_loss_is_accepted(self) -> None:
        """Ids would be given twice if the empty log began at 0; after --accept-loss it begins far beyond them."""
        broker = self.in_broker()
        broker.kill()
        shutil.rmtree(self.data)
        await deferToThread(broker.start)
        self.assertEqual([await self.answer(partition) for partition in (0, 1)], [None, None])
        shown = await self.command("repair", "--broker", broker.address, "t", "--dry-run")
        self.assertEqual(shown.returncode, 1, shown.stderr)
        for text in ("t-0 was stored up to", "unknown number of messages", f"begin again at {JUMP}"):
            self.assertIn(text, shown.stdout)
        asked = await self.command("repair", "--broker", broker.address, "t", "0", "--yes")
        self.assertEqual((asked.returncode, await self.answer(0)), (1, None))
        self.assertIn("--accept-loss", asked.stderr)
        accepted = await self.command("repair", "--broker", broker.address, "t", "0", "--accept-loss")
        self.assertEqual(accepted.returncode, 0, accepted.stdout + accepted.stderr)
        self.assertIn(f"t-0 is served again, and begins at {JUMP}\nsound\n", accepted.stdout)
        self.assertEqual(await self.answer(0), (JUMP, JUMP))
        self.assertGreater(await self.send(0), JUMP)
        self.assertIsNone(await self.answer(1))
        # Other topics are made and served.
        await self.admin().create("u", 1)
        # All of this stays so through restarts.
        await deferToThread(broker.stop)
        await deferToThread(broker.start)
        start, end = await self.answer(0) or (0, 0)
        self.assertTrue(start == JUMP < end)
        self.assertIsNone(await self.answer(1))

    async def test_a_partition_without_its_folder_is_offline(self) -> None:
        """A mount may be missing: nothing is written in its place; a repair serves the folder again."""
        broker = self.in_broker()
        broker.kill()
        away = self.folder / "away"
        shutil.move(self.data / "t-0", away)
        (self.data / "t-0").mkdir()  # a mount that is missing
        await deferToThread(broker.start)
        self.assertEqual(await self.answer(1), (0, self.ends[1]))
        self.assertIsNone(await self.answer(0))
        self.assertEqual(list((self.data / "t-0").iterdir()), [])
        (self.data / "t-0").rmdir()
        shutil.move(away, self.data / "t-0")
        mended = await self.command("repair", "--broker", broker.address, "t", "0", "--yes")
        self.assertEqual(mended.returncode, 0, mended.stdout + mended.stderr)
        self.assertEqual(await self.answer(0), (0, self.ends[0]))

    async def test_a_log_older_than_the_tree_knows_is_not_served(self) -> None:
        """A backup lacks messages that were acknowledged since; the partition that did not change is served."""
        broker = self.in_broker()
        await deferToThread(broker.stop)
        shutil.copytree(self.data, self.folder / "backup")
        await deferToThread(broker.start)
        await self.send(0)
        await deferToThread(broker.stop)
        shutil.rmtree(self.data)
        shutil.copytree(self.folder / "backup", self.data)
        await deferToThread(broker.start)
        self.assertEqual(await self.answer(1), (0, self.ends[1]))
        self.assertIsNone(await self.answer(0))

    async def test_a_missing_log_is_not_made_without_the_tree(self) -> None:
        """Only the tree knows whether messages were stored; once it is back, the partition is offline."""
        broker = self.in_broker()
        broker.kill()
        self.tree.kill()
        broker.options = [*broker.options, "--set", "zookeeper.timeout.ms=5000"]  # the last of a name counts
        shutil.rmtree(self.data / "t-0")
        await deferToThread(broker.start)
        self.assertEqual(await self.answer(1), (0, self.ends[1]))
        self.assertFalse((self.data / "t-0").exists())
        await deferToThread(self.tree.start)
        admin = self.admin()
        await self.until_metadata(admin, lambda found: any(part.error for part in found.topics[0].partitions))
        self.assertIsNone(await self.answer(0))
