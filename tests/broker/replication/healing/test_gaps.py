"""Tests of damage that no replica has the bytes for: a person decides, and then all replicas have the same gap."""

from __future__ import annotations

from typing import Any

from logd.errors import InvalidRequest
from logd.protocol import loops
from logd.protocol.requests.repair import Repair
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.healing.test_healing import DamagedReplicaTestCase


class ReplicatedGapTests(DamagedReplicaTestCase):
    """The same entry is damaged on several replicas."""

    def repair(self, broker: MemoryBroker, position: int, dry_run: bool = False) -> Any:
        """Have a broker repair the segment with a position."""
        connection = self.cluster.wait(self.cluster.connect(broker.address))
        answer = self.cluster.wait(connection.request(Repair("t", 0, dry_run, position=position)), 100.0)
        connection.abort()
        return answer

    def payloads(self) -> list[bytes]:
        """Return all messages in the logs, which are equal."""
        (content,) = self.contents()
        return [message.payload or b"" for message in loops.decode_set(content).messages]

    def test_nothing_is_given_up_unasked(self) -> None:
        """Once a person asks for it, the leader makes a gap, and the others copy that."""
        before = self.payloads()
        for broker in self.cluster.brokers:
            self.flip(broker, 1, -30)
        start = self.log(self.leader).segment_list.starts[1]
        self.cluster.advance(30.0)
        self.assertTrue(all("damaged" in self.health(broker) for broker in self.cluster.brokers))
        answer = self.repair(self.leader, start, dry_run=True)
        self.assertEqual((answer.error, answer.damages, answer.described[0].mended), (0, 1, False))
        answer = self.repair(self.leader, start)
        self.assertEqual((answer.error, answer.described[0].mended), (0, True), answer)
        self.cluster.advance(65.0)
        after = self.payloads()
        self.assertEqual(len(after), len(before) - 1)
        self.assertTrue(set(after) < set(before))
        self.assertFalse(any("damaged" in self.health(broker) for broker in self.cluster.brokers))

    def test_a_replica_that_is_away_may_have_the_bytes(self) -> None:
        """So no gap is made before it is back; then all are healed with its bytes."""
        away = self.followers[0]
        before = self.payloads()
        away.kill()
        self.cluster.advance(7.0)
        start = self.log(self.leader).segment_list.starts[1]
        for broker in self.cluster.brokers:
            if broker is not away:
                self.flip(broker, 1, -30)
        self.cluster.advance(5.0)
        answer = self.repair(self.leader, start)
        self.assertEqual(answer.error, InvalidRequest.code)
        self.assertIn("not all of its replicas are in sync", answer.text)
        away.start()
        self.cluster.advance(90.0)
        self.assertEqual(self.payloads(), before)

    def test_a_repair_heals_where_that_is_possible(self) -> None:
        """A person who does not want to wait for the next verification asks for it."""
        leader = self.leader
        self.healing(leader).verifier.stop()
        sound = self.flip(leader, 1)
        answer = self.repair(leader, self.log(leader).segment_list.starts[1])
        self.assertEqual((answer.error, answer.described[0].mended), (0, True), answer)
        self.assertEqual(bytes(self.inode(leader, 1).data), sound)
