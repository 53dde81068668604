"""Tests of logd.broker.kafka.administration.access_rules: Kafka's requests about access rules."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from twisted.logger import formatEvent

from logd.broker.kafka.administration.access_rules import MOST_RULES
from logd.security.access_rules import AccessRule, Effect, Match, Operation, ResourceType
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE, DESCRIBE_CONFIGS = 3, 4, 10
DENY, ALLOW = 2, 3
INVALID_REQUEST = 42


def creation(**more: Any) -> Any:
    """Return a rule in Kafka's form: ann may read topic t."""
    fields = {
        "resource_type": TOPIC,
        "resource_name": "t",
        "resource_pattern_type": LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return CreateAclsRequest.AclCreation(**(fields | more))


def filtering(**more: Any) -> dict[str, Any]:
    """Return a filter in Kafka's form that every rule passes, but for ``more``."""
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    } | more


class KafkaAccessRulesTests(KafkaTestCase):
    """Rules are added, shown and removed by a superuser, as soon as there are some."""

    def setUp(self) -> None:
        """Connect a client of the brokers' own, which may do everything."""
        super().setUp()
        self.peer = self.kafka()
        (session,) = self.broker.sessions
        session.requester.principal, session.requester.authenticated = "logd-broker", True

    def create(self, *creations: Any) -> list[int]:  # type: ignore[override]  # rules here, and no topics
        """Add rules; return the codes."""
        answer = self.ask(self.peer, CreateAclsRequest[1](creations=list(creations)))
        self.settle()
        self.texts = [each.error_message for each in answer.results]
        return [each.error_code for each in answer.results]

    def rules(self) -> list[AccessRule]:
        """Return the rules that the broker follows."""
        self.settle()
        return sorted(self.broker.authorizer.rules.rules, key=str)

    def described(self, peer: KafkaPeer, **more: Any) -> Any:
        """Return resources as (type, name, pattern, [(principal, operation, permission)...])."""
        answer = self.ask(peer, DescribeAclsRequest[1](**filtering(**more)))
        self.assertEqual(answer.error_code, 0, answer.error_message)
        return sorted(
            (
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                sorted((acl.principal, acl.operation, acl.permission_type) for acl in each.acls),
            )
            for each in answer.resources
        )

    def removed(self, **more: Any) -> list[str]:
        """Remove rules by a filter; return the names of their resources."""
        answer = self.ask(
            self.peer, DeleteAclsRequest[1](filters=[DeleteAclsRequest.DeleteAclsFilter(**filtering(**more))])
        )
        (result,) = answer.filter_results
        self.assertEqual(result.error_code, 0, result.error_message)
        return sorted(each.resource_name for each in result.matching_acls)

    def test_rules_of_kafka_are_rules_of_logd(self) -> None:
        """The names of the cluster and of strangers are Kafka's there, and logd's here."""
        codes = self.create(
            creation(),
            creation(resource_type=GROUP, resource_name="g", resource_pattern_type=PREFIXED, permission_type=DENY),
            creation(resource_type=CLUSTER, resource_name="kafka-cluster", operation=8, principal="User:ANONYMOUS"),
            creation(principal="User:*", resource_name="*", operation=2),
        )
        self.assertEqual(codes, [0, 0, 0, 0])
        self.assertEqual(
            [str(rule) for rule in self.rules()],
            [
                "allow * to do everything with topic *",
                "allow ann to read topic t",
                "allow anonymous to describe cluster",
                "deny ann to read group g*",
            ],
        )
        self.assertEqual(
            self.described(self.peer),
            [
                (TOPIC, "*", LITERAL, [("User:*", 2, ALLOW)]),
                (TOPIC, "t", LITERAL, [("User:ann", READ, ALLOW)]),
                (GROUP, "g", PREFIXED, [("User:ann", READ, DENY)]),
                (CLUSTER, "kafka-cluster", LITERAL, [("User:ANONYMOUS", 8, ALLOW)]),
            ],
        )

    def test_a_rule_that_exists_is_added_without_a_change(self) -> None:
        """As in Kafka."""
        self.assertEqual(self.create(creation(), creation()), [0, 0])
        self.assertEqual(
            self.rules(), [AccessRule("ann", Effect.ALLOW, Operation.READ, ResourceType.TOPIC, "t", Match.LITERAL)]
        )

    def test_what_no_rule_can_say_is_refused(self) -> None:
        """Each with the reason; the other rules of the request are added."""
        for more, words in (
            ({"host": "10.0.0.1"}, "host '10.0.0.1' is not allowed"),
            ({"operation": DESCRIBE_CONFIGS}, "part of Describe"),
            ({"operation": 12}, "needs no rule"),
            ({"operation": 77}, "operation 77"),
            ({"resource_type": 5}, "resource type 5"),
            ({"resource_pattern_type": MATCH}, "pattern type 2"),
            ({"principal": "ann"}, "User:NAME"),
            ({"principal": "User:a b"}, "'a b' is not allowed"),
            ({"resource_name": ""}, "is not allowed as the name"),
            ({"resource_type": CLUSTER}, "called 'cluster'"),
        ):
            self.assertEqual(self.create(creation(**more), creation()), [INVALID_REQUEST, 0], more)
            self.assertIn(words, self.texts[0])
        self.assertEqual(len(self.rules()), 1)

    def test_filters(self) -> None:
        """A name alone means rules of that name; with MATCH it means those that speak of the resource."""
        self.create(
            creation(),
            creation(resource_name="*", operation=WRITE),
            creation(resource_name="te", resource_pattern_type=PREFIXED, principal="User:bob"),
            creation(resource_name="test", permission_type=DENY),
        )
        for more, names in (
            ({}, ["*", "t", "te", "test"]),
            ({"resource_name_filter": "test"}, ["test"]),
            ({"resource_name_filter": "test", "pattern_type_filter": MATCH}, ["*", "te", "test"]),
            ({"pattern_type_filter": PREFIXED}, ["te"]),
            ({"principal_filter": "User:bob"}, ["te"]),
            ({"operation": WRITE}, ["*"]),
            ({"permission_type": DENY}, ["test"]),
            ({"resource_type_filter": GROUP}, []),
            ({"resource_type_filter": 5}, []),
            ({"operation": DESCRIBE_CONFIGS}, []),
            ({"host_filter": "10.0.0.1"}, []),
            ({"host_filter": "*"}, ["*", "t", "te", "test"]),
        ):
            self.assertEqual([each[1] for each in self.described(self.peer, **more)], names, more)
        self.assertEqual(self.removed(resource_name_filter="test", pattern_type_filter=MATCH), ["*", "te", "test"])
        self.assertEqual([rule.name for rule in self.rules()], ["t"])
        self.assertEqual(self.removed(), ["t"])
        self.assertEqual(self.rules(), [])

    def test_one_request_has_bounds(self) -> None:
        """Each rule is a write to the coordination tree."""
        codes = self.create(*(creation() for _ in range(MOST_RULES + 1)))
        self.assertEqual((codes[:MOST_RULES], codes[MOST_RULES:]), ([0] * MOST_RULES, [INVALID_REQUEST]))

    def test_changes_and_refusals_are_in_the_log_of_administration(self) -> None:
        """With the rule and with who has changed it."""
        self.create(creation(), creation(host="h"))
        self.removed()
        lines = [line for line in self.administration() if line.startswith("logd-broker at 10.0.0.8: ")]
        self.assertEqual(
            [line.removeprefix("logd-broker at 10.0.0.8: ")[:70] for line in lines],
            [
                "add access rule: refused: host 'h' is not allowed: rules hold wherever"[:70],
                "add access rule 'allow ann to read topic t': done",
                "remove access rule 'allow ann to read topic t': done",
            ],
        )

    def administration(self) -> list[str]:
        """Return the lines of the log of administration."""
        return [formatEvent(event) for event in self.events.events if event["log_namespace"] == "logd.administration"]
