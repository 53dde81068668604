"""Tests of the log of administration: its lines, its topic, and its bounds."""

from __future__ import annotations

import gc
import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.security.administration_log import MOST_ADDRESSES, AdministrationLog, AdministrationRecord
from logd.broker.security.requester import Requester
from logd.config.security import SecuritySettings
from logd.coord.registries.access_rules import add_rule, remove_rule
from logd.coord.registries.quotas import change_quota
from logd.errors import InvalidTopic
from logd.protocol import loops
from logd.protocol.requests.alter_topic import AlterTopic
from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic
from logd.protocol.requests.repair import Repair
from logd.security.access_rules import AccessRule, Effect, Operation, ResourceType
from logd.security.quotas import Quota
from tests.broker.rig import BrokerTestCase


class KeptRecords:
    """A topic that keeps its records."""

    def __init__(self) -> None:
        self.records: list[AdministrationRecord] = []
        self.stopped = False

    def publish(self, record: AdministrationRecord) -> None:
        """See RecordTopic."""
        self.records.append(record)

    def stop(self) -> None:
        """See RecordTopic."""
        self.stopped = True


class AdministrationLogTests(SynchronousTestCase):
    """A log on a clock."""

    def setUp(self) -> None:
        """Make a log whose records are kept."""
        self.clock = Clock()
        self.log = AdministrationLog(self.clock, lambda: 1_600_000_000.5)
        self.log.topic = self.kept = KeptRecords()
        self.alice = Requester("alice", "10.0.0.7", True, "SCRAM-SHA-256")

    def test_a_record_says_who_from_where_what_when_and_with_which_result(self) -> None:
        """Done, refused by a rule of ours, and failed by a bug."""
        self.log.record(self.alice, "create topic", "t", partitions=4)
        self.log.record(self.alice, "create topic", "t t", error=InvalidTopic("no"))
        self.log.record(self.alice, "create topic", "u", error=OSError("disk"))
        who = 1_600_000_000_500, "alice", "10.0.0.7", "SCRAM-SHA-256"
        what = "create topic"
        self.assertEqual(
            self.kept.records,
            [
                AdministrationRecord(*who, what, "t", "done", "", {"partitions": 4}),
                AdministrationRecord(*who, what, "t t", "refused", "no"),
                AdministrationRecord(*who, what, "u", "failed", "disk"),
            ],
        )

    def test_refusals_of_one_address_are_bounded_and_those_of_another_are_not_hidden(self) -> None:
        """A flood fills neither disk nor topic; those left out are counted, and what is done is always recorded."""
        for number in range(1000):
            self.log.login_failed(self.alice, f"user{number}", "PLAIN")
        self.log.login_failed(Requester(address="10.0.0.8"), "bob", "PLAIN")
        self.log.record(self.alice, "delete topic", "t")
        self.assertEqual(len(self.kept.records), 22)
        self.assertEqual([record.name for record in self.kept.records[-2:]], ["bob", "t"])
        self.clock.advance(5)
        for _ in range(100):
            self.log.login_failed(self.alice, "x", "PLAIN")
        self.assertEqual(len(self.kept.records), 32)
        self.clock.advance(5)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_many_addresses_need_bounded_memory(self) -> None:
        """However many call."""
        for number in range(MOST_ADDRESSES + 200):
            for _ in range(22):
                self.log.login_failed(Requester(address=f"10.{number}"), "x", "PLAIN")
        self.assertLessEqual(len(self.log._budgets), MOST_ADDRESSES)
        self.assertLessEqual(len(self.log._left_out), MOST_ADDRESSES + 1)
        self.log.stop()
        self.assertEqual((self.clock.getDelayedCalls(), self.kept.stopped), ([], True))


class AdministrationTopicTests(BrokerTestCase):
    """A broker that writes its records to a topic."""

    options = {"security": SecuritySettings(security_administration_topic="_admin")}  # noqa: RUF012

    def records(self, partition: int = 0) -> list[dict[str, Any]]:
        """Return the content of the topic's messages."""
        self.settle()
        messages = loops.decode_set(self.content("_admin", partition)).messages
        return [json.loads(message.payload or b"") for message in messages]

    def test_what_native_clients_change(self) -> None:
        """Create, change, repair and delete, with refusals; a question and a dry run are no changes."""
        peer = self.connect()
        for request in (
            CreateTopic("t", 2, {}),
            CreateTopic("t", 2, {}),
            AlterTopic("t"),
            AlterTopic("t", partitions=3),
            Repair("t", 0, dry_run=True),
            Repair("t", 0, dry_run=False),
            DeleteTopic("t"),
            DeleteTopic("t"),
        ):
            self.ask(peer, request)
        found = [(each["action"], each["name"], each["result"]) for each in self.records()]
        self.assertEqual(
            found,
            [
                ("create topic", "t", "done"),
                ("create topic", "t", "refused"),
                ("change topic", "t", "done"),
                ("repair", "t", "done"),
                ("delete topic", "t", "done"),
                ("delete topic", "t", "refused"),
            ],
        )
        first = self.records()[0]
        self.assertEqual((first["principal"], first["address"], first["broker"]), ("anonymous", "10.0.0.7", 0))
        self.assertEqual(first["details"]["partitions"], 2)

    def test_what_is_changed_in_the_tree(self) -> None:
        """Rules and quotas, by whoever can write there; what was there at the start is no change."""
        rule = AccessRule("alice", Effect.ALLOW, Operation.READ, ResourceType.TOPIC, "t")
        for change in (
            add_rule(self.access.client, rule),
            change_quota(self.access.client, "alice", lambda _: Quota(topics=3)),
            change_quota(self.access.client, "alice", lambda _: Quota(topics=4)),
            remove_rule(self.access.client, rule),
        ):
            changing: Deferred[Any] = Deferred.fromCoroutine(change)
            self.settle()
            self.successResultOf(changing)
        found = [(each["principal"], each["action"], each["name"], each["details"]) for each in self.records()]
        tree = "the coordination tree"
        self.assertEqual(
            found,
            [
                (tree, "add access rule", "allow alice to read topic t", {}),
                (tree, "add quota", "alice", {"topics": 3}),
                (tree, "change quota", "alice", {"topics": 4}),
                (tree, "remove access rule", "allow alice to read topic t", {}),
            ],
        )
        self.leave()
        self.open()
        self.assertEqual(len(self.records()), 4)

    def test_another_broker_has_a_partition_of_its_own(self) -> None:
        """A topic whose partitions are elsewhere gets one here."""
        creating = self.broker.administration.create("_admin", 1, {}, brokers={0: (7,)})
        self.settle()
        self.successResultOf(creating)
        self.ask(self.connect(), CreateTopic("t", 1, {}))
        self.assertEqual(self.records(1)[0]["name"], "t")

    def test_records_wait_for_the_topic(self) -> None:
        """A full disk is tried again; the number of those that wait is bounded."""
        self.files.room = 0
        peer = self.connect()
        for number in range(1100):
            self.broker.administration_log.record(Requester(), "delete topic", str(number))
        self.ask(peer, DeleteTopic("t"))
        self.files.room = None
        self.clock.advance(5)
        self.settle()
        self.clock.advance(5)
        names = [each["name"] for each in self.records()]
        self.assertEqual((len(names), names[-2:]), (1000, ["1099", "t"]))

    def test_a_stop_while_records_wait_is_no_error(self) -> None:
        """It leaves no trace in the log."""
        self.files.room = 0
        self.broker.administration_log.record(Requester(), "delete topic", "t")
        self.settle()
        self.broker.administration_log.stop()
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])
