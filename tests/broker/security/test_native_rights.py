"""Tests of the rights that native requests, and those of Kafka 0.7, need: each request of the tables, without and with.

A request that has no row here fails the first test, so that none can be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logd.config.security import SecuritySettings
from logd.coord import paths
from logd.coord.registries.access_rules import add_rule, remove_rule
from logd.protocol.requests.alter_topic import AlterTopic
from logd.protocol.requests.apis import LEGACY_APIS, NATIVE_APIS
from logd.protocol.requests.authenticate import Authenticate
from logd.protocol.requests.create_delete_topic import CreateTopic, CreateTopicV1, CreateTopicV2, DeleteTopic
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_session import FetchWaitV1, NewPart
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.groups.prepare_group import PrepareGroup
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata, MetadataV1
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.repair import Repair
from logd.protocol.requests.replica_fetch import FlushedPart, ReplicaFetch, ReplicaFetchV1, ReplicaPart, ReplicaProgress
from logd.protocol.requests.replicas.describe_replicas import DescribeReplicas, DescribeReplicasV1
from logd.protocol.requests.replicas.operations import DrainBroker, ElectLeaders, ElectLeadersV1, Reassign
from logd.protocol.requests.replicas.replica_read import ReplicaRead, ReplicaReadV1
from logd.security.access_rules import CLUSTER_NAME, AccessRule, Effect, Operation, ResourceType
from logd.security.principals import ANONYMOUS
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain

TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED = 121, 122, 119
HELLO = plain(b"hello")


@frozen
class Need:
    """A request for topic t, the operation that it needs, and the error in its answer."""

    request: Any
    operation: Operation
    #: None for requests that nothing answers.
    error: Callable[[Any], int] | None = lambda answer: int(answer.error)
    #: The code of a refusal.
    refused: int = TOPIC_REFUSED
    #: The type of the resource called t.
    kind: ResourceType = ResourceType.TOPIC


def _first(answer: Any) -> int:
    return int(answer.parts[0].error)


def _topic(answer: Any) -> int:
    return int(answer.topics[0].error)


FETCH = FetchPart("t", 0, 0, 0, 100, True)
NEEDS = (
    Need(Produce("t", 0, HELLO), Operation.WRITE, None),
    Need(MultiProduce((Produce("t", 0, HELLO),)), Operation.WRITE, None),
    Need(Fetch("t", 0, 0, 100), Operation.READ, refused=-1),
    Need(MultiFetch((Fetch("t", 0, 0, 100),)), Operation.READ, _first, -1),
    Need(Offsets("t", 0, -1, 1), Operation.DESCRIBE, refused=-1),
    Need(Metadata(("t",)), Operation.DESCRIBE, _topic),
    Need(MetadataV1(("t",)), Operation.DESCRIBE, _topic),
    Need(ProduceAck(1, 1000, (ProducePart("t", 0, 0, False, HELLO),)), Operation.WRITE, _first),
    Need(FetchWait(0, 1, 1000, (FETCH,)), Operation.READ, _first),
    Need(FetchWaitV1(1, 0, 0, 1, 1000, new=(NewPart("t", 1, 0, 0, 0, 100, 3),)), Operation.READ, _first),
    Need(CreateTopic("t", 1, {}), Operation.CREATE),
    Need(CreateTopicV1("t", 1, {}), Operation.CREATE),
    Need(CreateTopicV2("t", 1, 1, {}), Operation.CREATE),
    Need(AlterTopic("t", partitions=2), Operation.ALTER),
    Need(DeleteTopic("t"), Operation.DELETE),
    Need(DescribeLog("t", 0), Operation.DESCRIBE),
    Need(Repair("t", 0), Operation.ALTER),
    Need(DescribeReplicas("t"), Operation.DESCRIBE),
    Need(DescribeReplicasV1("t"), Operation.DESCRIBE),
    Need(Reassign("t", plan_only=True), Operation.DESCRIBE),
    Need(Reassign("t"), Operation.ALTER, refused=CLUSTER_REFUSED, kind=ResourceType.CLUSTER),
    Need(Reassign("t", cancel=True), Operation.ALTER, refused=CLUSTER_REFUSED, kind=ResourceType.CLUSTER),
    Need(ElectLeaders("t", unclean=True), Operation.ALTER, refused=CLUSTER_REFUSED, kind=ResourceType.CLUSTER),
    Need(ElectLeadersV1("t", withdraw=True), Operation.ALTER, refused=CLUSTER_REFUSED, kind=ResourceType.CLUSTER),
    Need(DrainBroker(1, True), Operation.ALTER, refused=CLUSTER_REFUSED, kind=ResourceType.CLUSTER),
    Need(DescribeReplicas(""), Operation.DESCRIBE, refused=CLUSTER_REFUSED, kind=ResourceType.CLUSTER),
    Need(DescribeReplicasV1(""), Operation.DESCRIBE, refused=CLUSTER_REFUSED, kind=ResourceType.CLUSTER),
    Need(PrepareGroup("t"), Operation.READ, refused=GROUP_REFUSED, kind=ResourceType.GROUP),
)
#: The requests that anybody may send, each with the reason.
FREE: dict[type, str] = {
    Authenticate: "by it a client gets its rights",
    ReplicaFetch: "only brokers may send it, whatever the rules say: see the tests of replication",
    ReplicaFetchV1: "as ReplicaFetch",
    ReplicaProgress: "as ReplicaFetch",
    ReplicaRead: "as ReplicaFetch",
    ReplicaReadV1: "as ReplicaFetch",
}


def change_rule(test: BrokerTestCase, change: Callable[..., Any], rule: AccessRule) -> None:
    """Add or remove a rule, and let the broker see that."""
    changing = Deferred.fromCoroutine(change(test.access.client, rule))
    test.settle()
    test.successResultOf(changing)


class NativeRightsTests(BrokerTestCase):
    """Each request of the tables at a broker that demands rights."""

    options = {"security": SecuritySettings(security_required=True, security_superusers="root")}  # noqa: RUF012

    def setUp(self) -> None:
        """Make a topic with a message."""
        super().setUp()
        self.create("t")
        self.root = self.connect_as("root")
        self.produce(self.root, "t", HELLO)

    def connect_as(self, user: str) -> Peer:
        """Connect a client that has authenticated."""
        peer = self.connect()
        (session,) = [each for each in self.broker.sessions if each.connection is peer.connection]
        session.requester.principal, session.requester.authenticated = user, True
        return peer

    def rule(
        self,
        operation: Operation,
        name: str = "t",
        principal: str = ANONYMOUS,
        effect: Effect = Effect.ALLOW,
        kind: ResourceType = ResourceType.TOPIC,
    ) -> AccessRule:
        """Add a rule for topics, groups or the cluster, and let the broker see it."""
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else name
        rule = AccessRule(principal, effect, operation, kind, name)
        change_rule(self, add_rule, rule)
        return rule

    def remove(self, rule: AccessRule) -> None:
        """Remove a rule, and let the broker see that."""
        change_rule(self, remove_rule, rule)

    def is_refused(self, peer: Peer, need: Need) -> bool:
        """Send a request; return whether it was refused for want of rights."""
        if need.error is None:
            before = self.content("t")
            peer.send(need.request)
            self.settle()
            return self.content("t") == before
        return need.error(self.ask(peer, need.request)) == need.refused

    def test_every_request_is_here(self) -> None:
        """A new request needs a row that says which right it needs."""
        known = {type(need.request) for need in NEEDS} | set(FREE)
        self.assertEqual({api.request for api in (*NATIVE_APIS, *LEGACY_APIS)} - known, set())

    def test_each_request_is_refused_without_its_right(self) -> None:
        """Neither the right for another topic nor all other rights for this one help."""
        self.rule(Operation.ALL, "u")
        for need in NEEDS:
            self.assertTrue(self.is_refused(self.connect(), need), need)
        for need in NEEDS:
            others = set(Operation) - {need.operation, Operation.ALL}
            if need.operation is Operation.DESCRIBE:
                others = {Operation.CREATE}  # all others imply it
            rules = [self.rule(each, kind=need.kind) for each in others]
            self.assertTrue(self.is_refused(self.connect(), need), need)
            for rule in rules:
                self.remove(rule)
        for kind in ResourceType:
            self.assertGreaterEqual(
                self.broker.authorizer.refused[kind], 2 * sum(need.kind is kind for need in NEEDS), kind
            )

    def test_each_request_is_served_with_its_right(self) -> None:
        """The one right is enough."""
        for need in NEEDS:
            rule = self.rule(need.operation, kind=need.kind)
            self.assertFalse(self.is_refused(self.connect(), need), need)
            self.remove(rule)
            if isinstance(need.request, DeleteTopic):
                self.create("t")

    def test_superusers_may_do_everything_once_they_have_authenticated(self) -> None:
        """Whatever the rules say; a connection that only has the name may not."""
        self.rule(Operation.ALL, principal="root", effect=Effect.DENY)
        for need in NEEDS:
            if not isinstance(need.request, DeleteTopic):
                self.assertFalse(self.is_refused(self.connect_as("root"), need), need)
        liar = self.connect_as("root")
        (session,) = [each for each in self.broker.sessions if each.connection is liar.connection]
        session.requester.authenticated = False
        self.assertTrue(self.is_refused(liar, NEEDS[6]))

    def test_what_only_brokers_may_send_no_user_may(self) -> None:
        """Neither nobody, nor a user with every rule, nor a superuser; and nothing becomes visible by it."""
        for kind in ResourceType:
            self.rule(Operation.ALL, principal="ann", kind=kind)
        before = self.content("t")
        for peer in (self.connect(), self.connect_as("ann"), self.root):
            answer = self.ask(peer, ReplicaFetch(1, "i", 0, 1000, (ReplicaPart("t", 0, 0, 0, -1, 0),)))
            self.assertEqual((answer.error, answer.parts), (CLUSTER_REFUSED, ()))
            for request in (ReplicaRead("t", 0, 0, 0, 100), ReplicaReadV1("t", "uuid", 0, 0, 0, 100)):
                answer = self.ask(peer, request)
                self.assertEqual((answer.error, bytes(answer.message_set)), (CLUSTER_REFUSED, b""))
            peer.send(ReplicaProgress((FlushedPart("t", 0, 0, 1 << 40),)))
            self.settle()
            self.assertEqual(self.content("t"), before)

    def test_topics_that_may_not_be_described_are_not_listed(self) -> None:
        """A client that asks for all of them is told of those that it may know."""
        self.create("u")
        self.rule(Operation.READ, "u")
        self.assertEqual([each.topic for each in self.ask(self.connect(), Metadata(None)).topics], ["u"])
        self.assertEqual([each.topic for each in self.ask(self.root, Metadata(None)).topics], ["t", "u"])

    def test_nothing_is_told_of_a_log_that_may_not_be_read(self) -> None:
        """Neither where it begins and ends, nor whether it exists."""
        for topic in ("t", "none"):
            (part,) = self.ask(self.connect(), FetchWait(0, 1, 1000, (FETCH._replace(topic=topic),))).parts
            self.assertEqual(part[2:5], (TOPIC_REFUSED, -1, -1))
            self.assertEqual(self.ask(self.connect(), DescribeLog(topic, 0)).error, TOPIC_REFUSED)
            (found,) = self.ask(self.connect(), Metadata((topic,))).topics
            self.assertEqual((found.error, found.uuid, found.partitions), (TOPIC_REFUSED, "", ()))

    def test_a_produce_creates_a_topic_only_with_the_right_to_create(self) -> None:
        """The right to write is not enough; that to create topics in the cluster is."""
        self.rule(Operation.WRITE, "new")
        peer = self.connect()
        self.assertEqual(self.produce(peer, "new", HELLO).error, TOPIC_REFUSED)
        self.assertEqual(_topic(self.ask(peer, Metadata(("new",), create=True))), TOPIC_REFUSED)
        self.assertIsNone(self.broker.topics.get("new"))
        cluster = AccessRule(ANONYMOUS, Effect.ALLOW, Operation.CREATE, ResourceType.CLUSTER, "cluster")
        change_rule(self, add_rule, cluster)
        self.assertEqual(self.produce(self.connect(), "new", HELLO).error, 0)

    def test_a_fetch_that_waits_is_answered_when_its_right_is_taken(self) -> None:
        """At once, in both forms; what is produced later is not sent."""
        rule = self.rule(Operation.READ)
        end = self.log_of("t").end
        plain_fetch, session_fetch = self.connect(), self.connect()
        plain_fetch.send(FetchWait(60_000, 1, 1000, (FETCH._replace(offset=end),)))
        session_fetch.send(FetchWaitV1(1, 0, 60_000, 1, 1000, new=(NewPart("t", 1, 0, 0, end, 100, 1),)))
        self.settle()
        self.assertEqual((plain_fetch.answers(), session_fetch.answers()), ([], []))
        self.remove(rule)
        (answer,), (in_session,) = plain_fetch.answers(), session_fetch.answers()
        self.assertEqual(bytes(answer.parts[0].message_set), b"")
        self.assertEqual(_first(in_session), TOPIC_REFUSED)
        self.produce(self.root, "t", HELLO)
        self.assertEqual(_first(self.ask(plain_fetch, FetchWait(0, 1, 1000, (FETCH._replace(offset=end),)))), 121)

    def test_a_right_that_is_taken_during_a_search(self) -> None:
        """Messages that it finds are not sent then, be it under way or to come; the search for others goes on."""
        self.create("u")
        self.produce(self.root, "u", HELLO)
        rule, _ = self.rule(Operation.READ), self.rule(Operation.READ, "u")
        peer = self.connect()
        inside = [NewPart(topic, number, 0, 0, 3, 100) for number, topic in enumerate(("t", "t", "u"))]
        peer.send(FetchWaitV1(1, 0, 0, 1, 1000, new=tuple(inside)))
        (answer,) = peer.answers()
        self.assertEqual(answer.parts, ())
        (search,) = self.reads.works
        self.reads.works.clear()
        self.remove(rule)
        self.reads.works.append(search)
        self.settle()
        answer = self.ask(peer, FetchWaitV1(1, 1, 0, 1, 1000))
        found = {part.number: (part.error, bytes(part.message_set)) for part in answer.parts}
        self.assertEqual(found, {0: (TOPIC_REFUSED, b""), 1: (TOPIC_REFUSED, b""), 2: (0, HELLO)})

    def test_a_rule_that_cannot_be_read_changes_nothing_else(self) -> None:
        """It is logged; the other rules hold."""
        self.rule(Operation.READ)
        creating = self.access.client.create(f"{paths.ACCESS_RULES}/bad", b"{}")
        self.settle()
        self.successResultOf(creating)
        self.assertFalse(self.is_refused(self.connect(), NEEDS[8]))
        self.flushLoggedErrors()


class OpenBrokerTests(BrokerTestCase):
    """A broker that does not demand rights."""

    def test_everything_is_allowed_until_there_is_a_rule(self) -> None:
        """And again once there is none."""
        self.create("t")
        rule = AccessRule("ann", Effect.ALLOW, Operation.READ, ResourceType.TOPIC, "t")
        for change, expected in ((None, 0), (add_rule, TOPIC_REFUSED), (remove_rule, 0)):
            if change is not None:
                change_rule(self, change, rule)
            self.assertEqual(self.produce(self.connect(), "t", HELLO).error, expected)

    def test_a_rule_that_cannot_be_read_closes_the_broker_at_its_next_start(self) -> None:
        """It may be the one that was to close it."""
        self.create("t")
        creating = self.access.client.create(f"{paths.ACCESS_RULES}/bad", b"{}", makepath=True)
        self.settle()
        self.successResultOf(creating)
        self.leave()
        self.open()
        self.assertEqual(self.produce(self.connect(), "t", HELLO).error, TOPIC_REFUSED)
        self.flushLoggedErrors()
