"""Tests of logd.aio.admin with a broker in memory, on an event loop of asyncio."""

from __future__ import annotations

from logd.aio.admin import AsyncioAdmin
from logd.errors import (
    UnknownTopic,
)
from tests.aio.loops import ModelTestCase


class AdminTests(ModelTestCase):
    """``AsyncioAdmin``."""

    def test_topics_are_made_described_and_deleted(self) -> None:
        """Errors keep their class."""

        async def main() -> None:
            self.begin()
            async with AsyncioAdmin("model:1", connect=self.broker.connect) as admin:
                self.assertEqual(await admin.create("u", 2), "uuid")
                self.assertEqual(await admin.topics(), ["t", "u"])
                self.assertEqual(len((await admin.describe("u")).partitions), 2)
                self.assertEqual((await admin.describe_log("u", 0)).visible_end, 0)
                self.assertEqual(set(await admin.describe_logs("u", [0, 1])), {0, 1})
                await admin.delete("u")
                with self.assertRaises(UnknownTopic):
                    await admin.describe("u")
                self.assertEqual([each.topic for each in (await admin.metadata()).topics], ["t"])

        self.run_loop(main)
