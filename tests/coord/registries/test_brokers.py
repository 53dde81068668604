"""Tests of the registrations of brokers."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.ephemeral import HeldElsewhere
from logd.coord.kept_ephemeral import KeptEphemeral
from logd.coord.registries.brokers import MOST_LISTENERS, BrokerInfo, conflict, keep_registered
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.rig import TreeClientTestCase

PLAIN = BrokerInfo(3, "h", 6667, "i", {"t": (0, 2)})
LISTENING = BrokerInfo(3, "h", 6667, "i", {"t": (0, 2)}, (("a", 9092), ("::1", 9093)))


class BrokerInfoTests(SynchronousTestCase):
    """The value of a node below /brokers/ids."""

    def test_a_registration_is_read_as_it_was_written(self) -> None:
        """With and without listeners for Kafka's clients."""
        for info in (PLAIN, LISTENING):
            self.assertEqual(BrokerInfo.decode("3", info.encode()), info)

    def test_listeners_are_a_field_that_earlier_readers_pass_over(self) -> None:
        """The fields that they read are as they were, and without a listener the bytes are."""
        value = json.loads(LISTENING.encode())
        self.assertEqual(value.pop("kafka"), [{"host": "a", "port": 9092}, {"host": "::1", "port": 9093}])
        self.assertEqual(value, json.loads(PLAIN.encode()))
        self.assertEqual(PLAIN.encode(), b'{"host": "h", "port": 6667, "instance": "i", "topics": {"t": [0, 2]}}')

    def test_a_version_is_a_field_that_earlier_readers_pass_over(self) -> None:
        """It is told to people, so it has no characters that a terminal obeys."""
        info = evolve(PLAIN, version="0.2.0.dev1+g12")
        self.assertEqual(BrokerInfo.decode("3", info.encode()), info)
        value = json.loads(info.encode())
        self.assertEqual(value.pop("version"), "0.2.0.dev1+g12")
        self.assertEqual(value, json.loads(PLAIN.encode()))
        for wrong in (5, None, "\x1b[2J", "a b", "1" * 101):
            with self.assertRaises(ValueError):
                BrokerInfo.decode("3", json.dumps({**value, "version": wrong}).encode())

    def test_wrong_listeners_are_refused(self) -> None:
        """Their hosts and ports are told to clients, and shown on terminals."""
        good = {"host": "a", "port": 1}
        wrong: list[Any] = [
            *({}, "a:1", 5, None, [None], ["a:1"], [["a", 1]], [{}], [good] * (MOST_LISTENERS + 1)),
            *([{"host": host, "port": 1}] for host in ("", "a b", "\x1b[2J", 5, None, "a" * 300)),
            *([{"host": "a", "port": port}] for port in (-1, 65536, "1", 1.0, True, None)),
        ]
        value = json.loads(PLAIN.encode())
        for kafka in wrong:
            with self.assertRaises(ValueError):
                BrokerInfo.decode("3", json.dumps({**value, "kafka": kafka}).encode())
        more = [{**good, "tls": True}]
        self.assertEqual(BrokerInfo.decode("3", json.dumps({**value, "kafka": more}).encode()).kafka, (("a", 1),))


class KeptRegistrationTests(TreeClientTestCase):
    """The node of a live broker, and a second process with the same data directory, or a copy of it."""

    def keep(self, client: InProcessCoordination, info: BrokerInfo) -> KeptEphemeral:
        """Return a registration, not started yet."""
        return keep_registered(client, self.clock, info, lambda failure: None, lambda: None)

    def test_a_restarted_broker_takes_its_own_registration_over(self) -> None:
        """It was killed, and its session has not expired yet; the port is free again, so nobody else has it."""
        killed, again = self.client(), self.client()
        self.result(self.keep(killed, PLAIN).start())
        killed.link.reachable = False
        killed.link.cut()
        self.result(self.keep(again, evolve(PLAIN, topics={})).start())
        stat = self.result(again.exists("/brokers/ids/3"))
        assert stat is not None
        self.assertEqual(stat.ephemeral_owner, again.session_id)

    def test_a_copy_of_the_directory_elsewhere_waits(self) -> None:
        """Both would take the node from each other without end, and lead the same partitions."""
        first, other = self.client(), evolve(PLAIN, port=6668)
        self.result(self.keep(first, PLAIN).start())
        starting = self.keep(self.client(), other).start()
        self.turn()
        held = self.failureResultOf(starting, HeldElsewhere).value
        text = conflict(other, held)
        self.assertIn("broker 3 is registered at h:6667 with this data directory, and this one is at h:6668", text)
        self.assertIn("zookeeper.session.ms", text)
        stat = self.result(first.exists("/brokers/ids/3"))
        assert stat is not None
        self.assertEqual(stat.ephemeral_owner, first.session_id)

    def test_a_new_disk_at_the_same_address_is_told_from_another_broker(self) -> None:
        """The broker was killed and has an empty disk: it needs no other id, and registers within seconds."""
        first, empty = self.client(), evolve(PLAIN, instance="j")
        self.result(self.keep(first, PLAIN).start())
        starting = self.keep(self.client(), empty).start()
        self.turn()
        held = self.failureResultOf(starting, HeldElsewhere).value
        text = conflict(empty, held)
        self.assertIn("broker 3 is still registered at h:6667 with another data directory, instance i", text)
        self.assertNotIn("give one of them an id", text)
        self.assertIn("give one of them an id", conflict(evolve(empty, port=1), held))
