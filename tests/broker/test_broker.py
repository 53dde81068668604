"""Tests of what all connections of a broker share: their number, hostile bytes, health, figures and the stop."""

from __future__ import annotations

import random

from logd import __version__
from logd.broker.metrics.broker_metrics import BrokerMetrics
from logd.broker.metrics.partitions import PartitionMetrics
from logd.protocol.implementation import IMPLEMENTATION, REASON
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.requests import encode_request
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")


class ConnectionsTests(BrokerTestCase):
    """A broker that takes three connections at most."""

    options = {"connections_max": 3}  # noqa: RUF012

    def test_connections_beyond_the_limit_are_closed(self) -> None:
        """The warnings get rarer as refusals go on; a place is free again once one of the three goes."""
        peers = [self.connect() for _ in range(3)]
        refused = [self.connect() for _ in range(20)]
        self.assertEqual([peer.lost for peer in peers + refused], [False] * 3 + [True] * 20)
        self.assertEqual(self.broker.counters.connections_refused, 20)
        self.assertEqual(len(self.events.warnings("connections.max = 3 connections are open")), 5)
        self.assertEqual(self.ask(peers[0], Fetch("t", 0, 0, 1)), FetchResponse(0))
        peers[1].lose()
        self.assertEqual(self.ask(self.connect(), Fetch("t", 0, 0, 1)), FetchResponse(0))

    def test_half_a_frame_costs_its_own_bytes(self) -> None:
        """A connection keeps what was sent of an incomplete request, not the size that it announces."""
        peers = [self.connect() for _ in range(3)]
        for peer in peers[:2]:
            peer.send_bytes((16 << 20).to_bytes(4, "big") + bytes(1000))
        self.assertEqual([peer.connection._conversation.kept_bytes for peer in peers], [1004, 1004, 0])
        self.assertEqual(self.ask(peers[2], Fetch("t", 0, 0, 1)), FetchResponse(0))


class AddressTests(BrokerTestCase):
    """A broker that takes two connections at most from one address."""

    options = {"connections_address_max": 2}  # noqa: RUF012

    def test_an_address_has_its_own_limit(self) -> None:
        """Other addresses are not affected, and a place is free again once one connection goes."""
        peers = [self.connect(), self.connect()]
        self.assertTrue(self.connect().lost)
        self.assertEqual(
            len(self.events.warnings("connections.address.max = 2 connections from its address are open")), 1
        )
        self.assertFalse(self.connect("10.0.0.8").lost)
        peers[0].lose()
        self.assertFalse(self.connect().lost)
        self.assertTrue(self.connect().lost)


class HostileTests(BrokerTestCase):
    """Bytes that mean nothing, and bytes that lie about their size."""

    def test_a_malformed_frame_ends_its_connection_alone(self) -> None:
        """Requests before it are answered, the reason is logged, and other connections go on."""
        other = self.connect()
        fetch = b"".join(encode_request(Fetch("t", 0, 0, 1)))
        malformed = {
            "size 0": ("00000000", "a frame of 0 bytes"),
            "negative": ("ffffffff", "a frame of -1 bytes"),
            "above the limit": ("01000001", "a frame of 16777217 bytes, 1 to 16777216 are allowed"),
            "too short for a type": ("00000001 00", "2 bytes of fields wanted, 1 are left"),
            "unknown type": ("00000002 0063", "request type 99 is not known"),
            "string too long": ("00000006 0001 7fff 6161", "a field of 32767 bytes, 2 are left"),
            "negative string": ("00000018 0001 ffff 61616161 00000000 0000000000000000 0000", "a field of -1 bytes"),
            "not UTF-8": ("00000015 0001 0001 ff 00000000 0000000000000000 00000000", "not UTF-8"),
            "bytes left over": ("00000016 0001 0001 61 00000000 0000000000000000 00000000 00", "1 byte left over"),
            "set too long": ("00000010 0000 0001 61 00000000 00000010 616161", "a field of 16 bytes, 3 are left"),
            "set too short": ("00000010 0000 0001 61 00000000 00000001 616161", "2 bytes left over"),
            "negative set": ("0000000d 0000 0001 61 00000000 ffffffff", "a field of -1 bytes"),
            "count too large": ("00000004 0002 7fff", "32767 items in 0 bytes"),
            "negative count": ("00000004 0002 ffff", "-1 items"),
            "huge list": ("00000018 0012 0000 00000001 00000000 00000000 00000000 7fffffff", "2147483647 items"),
        }
        for name, (text, reason) in malformed.items():
            peer = self.connect()
            peer.send_bytes(fetch * 2 + bytes.fromhex(text) + fetch)
            self.assertEqual(peer.received().hex(), "000000020000" * 2, name)
            self.assertTrue(peer.lost, name)
            self.assertEqual(len(self.events.warnings(reason)), 1, name)
            self.events.events.clear()
        self.assertEqual(self.ask(other, Fetch("t", 0, 0, 1)), FetchResponse(0))

    def test_random_bytes_harm_no_other_client(self) -> None:
        """The bytes come in pieces of any size, and the broker raises nothing."""
        other = self.connect()
        self.create("t")
        seed = random.Random(42)
        sound = [
            b"".join(encode_request(request))
            for request in (Fetch("t", 0, 0, 9), Produce("t", 0, HELLO), Metadata(None))
        ]
        for _ in range(300):
            peer = self.connect()
            data = bytearray(b"".join(seed.choices(sound, k=5)) if seed.random() < 0.7 else seed.randbytes(200))
            for _ in range(seed.randrange(4)):
                data[seed.randrange(len(data))] = seed.randrange(256)
            while data and not peer.lost:
                cut = seed.randrange(1, len(data) + 1)
                peer.send_bytes(bytes(data[:cut]))
                del data[:cut]
            self.settle()
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.ask(other, Fetch("t", 0, 0, 4)), FetchResponse(0, HELLO[:4]))


class HealthTests(BrokerTestCase):
    """Health and figures, as operators see them."""

    def test_health_names_the_partitions_in_trouble(self) -> None:
        """The status is ok, then degraded by a partition offline or lost, then stopping."""
        self.create("t", 2)
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO))
        expected = {
            "status": "ok",
            "broker": 0,
            "partitions": 2,
            "offline": {},
            "lost": {},
            "full": [],
            "connections": 1,
            "unflushed_bytes": len(HELLO),
            "coordination": "connected",
            "registered": True,
            "problem": None,
            "brokers": [0],
            "conflicts": {},
        }
        found = self.broker.health()
        found.pop("contact_age")  # the tree of these tests has a clock of its own
        self.assertEqual(found, expected)
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        health = self.broker.health()
        self.assertEqual((health["status"], list(health["offline"])), ("degraded", ["t-1"]))
        self.log_of("t", 0).note_loss("a file is missing")
        self.assertEqual(self.broker.health()["lost"], {"t-0": "a file is missing"})
        self.broker.stop()
        self.assertEqual(self.broker.health()["status"], "stopping")

    def test_a_full_disk_shows_in_health(self) -> None:
        """The partition is named until an append is flushed again, or for a minute after the last refusal."""
        self.create("t", 2)
        self.settle()
        peer = self.connect()
        for heal in (True, False):
            self.files.room = 0
            peer.send(Produce("t", 1, HELLO))
            self.assertEqual((self.broker.health()["status"], self.broker.health()["full"]), ("full", ["t-1"]))
            self.files.room = None
            if heal:
                peer.send(Produce("t", 1, HELLO))
                self.settle()
            else:
                self.clock.advance(60)
            self.assertEqual((self.broker.health()["status"], self.broker.health()["full"]), ("ok", []))

    def test_metrics_count_traffic_and_refusals(self) -> None:
        """Refusals are counted by their reason, and each partition has its ends."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO * 2), Produce("t", 0, HELLO[:-1] + b"O"), Produce("t", 5, HELLO))
        self.settle()
        peer.send(Fetch("t", 0, 0, 20), Fetch("none", 0, 0, 20))
        self.settle()
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for collector in (BrokerMetrics(self.broker), PartitionMetrics(self.broker.store.logs))
            for metric in collector.collect()
            for sample in metric.samples
        }
        expected = {
            ("logd_info", __version__, IMPLEMENTATION, REASON): 1,
            ("logd_messages_in_total",): 2,
            ("logd_bytes_in_total",): 2 * len(HELLO),
            ("logd_bytes_out_total",): 20,
            ("logd_requests_total",): 5,
            ("logd_fetch_requests_total",): 2,
            ("logd_connections_total",): 1,
            ("logd_connections",): 1,
            ("logd_sets_refused_total", "InvalidMessage"): 1,
            ("logd_sets_refused_total", "WrongPartition"): 1,
            ("logd_log_end_offset", "t", "0"): 2 * len(HELLO),
            ("logd_log_visible_offset", "t", "0"): 2 * len(HELLO),
            ("logd_partition_offline", "t", "0"): 0,
            ("logd_producers_paused",): 0,
        }
        self.assertEqual({key: samples.get(key) for key in expected}, expected)


class StopTests(BrokerTestCase):
    """A broker that has been told to stop."""

    def test_a_stopping_broker_takes_no_connections(self) -> None:
        """Clients that are connected are served to the end."""
        peer = self.connect()
        self.broker.stop()
        self.assertTrue(self.connect().lost)
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 1)), FetchResponse(0))

    def test_legacy_produce_is_kept(self) -> None:
        """A produce request of 0.7 has no answer, so its sender could not learn of a refusal."""
        self.create("t")
        peer = self.connect()
        self.broker.stop()
        peer.send(Produce("t", 0, HELLO))
        self.settle()
        self.assertEqual(self.content("t"), HELLO)
