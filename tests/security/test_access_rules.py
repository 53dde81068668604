"""Tests of logd.security.access_rules, and of the names of principals."""

from __future__ import annotations

from itertools import product
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.security.authorizer import Authorizer
from logd.broker.security.requester import Requester
from logd.broker.security.rights import Rights
from logd.errors import ConfigurationError
from logd.security.access_rules import (
    MOST_CHARACTERS,
    MOST_REMEMBERED,
    AccessRule,
    AccessRules,
    Effect,
    Match,
    Operation,
    ResourceType,
)
from logd.security.principals import ANONYMOUS, EVERYONE, check_principal

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def allow(principal: str, operation: Operation, name: str, match: Match = Match.LITERAL) -> AccessRule:
    """Return a permission for topics."""
    return AccessRule(principal, Effect.ALLOW, operation, TOPIC, name, match)


def deny(principal: str, operation: Operation, name: str, match: Match = Match.LITERAL) -> AccessRule:
    """Return a denial for topics."""
    return AccessRule(principal, Effect.DENY, operation, TOPIC, name, match)


class AccessRulesTests(SynchronousTestCase):
    """``AccessRules.allows``."""

    def allowed(self, rules: list[AccessRule], principal: str, operation: Operation, name: str) -> bool:
        """Return the answer about a topic; asked twice, as the second answer is a remembered one."""
        made = AccessRules(rules)
        first = made.allows(principal, operation, TOPIC, name)
        self.assertEqual(made.allows(principal, operation, TOPIC, name), first)
        return first

    def test_what_no_rule_allows_is_denied(self) -> None:
        """Another topic, another user, another operation and another type are not allowed."""
        rules = [allow("ann", READ, "t")]
        self.assertTrue(self.allowed(rules, "ann", READ, "t"))
        self.assertFalse(self.allowed(rules, "ann", READ, "tt"))
        self.assertFalse(self.allowed(rules, "bob", READ, "t"))
        self.assertFalse(self.allowed(rules, "ann", WRITE, "t"))
        self.assertFalse(AccessRules(rules).allows("ann", READ, GROUP, "t"))
        self.assertFalse(self.allowed([], "ann", READ, "t"))

    def test_a_denial_wins(self) -> None:
        """Whoever it names, however it names the resource, and whatever the order of the rules."""
        permissions = [allow("ann", Operation.ALL, "web.", Match.PREFIX), allow("ann", READ, "web.clicks")]
        for denial in (
            deny("ann", READ, "web.clicks"),
            deny(EVERYONE, READ, "web.clicks"),
            deny("ann", Operation.ALL, "web", Match.PREFIX),
            deny("ann", READ, "*"),
        ):
            for rules in ([denial, *permissions], [*permissions, denial]):
                self.assertFalse(self.allowed(rules, "ann", READ, "web.clicks"), denial)

    def test_prefixes_and_stars(self) -> None:
        """A prefix has no pattern in it; a star is a name of its own."""
        self.assertTrue(self.allowed([allow("ann", READ, "web.", Match.PREFIX)], "ann", READ, "web.clicks"))
        self.assertFalse(self.allowed([allow("ann", READ, "web.", Match.PREFIX)], "ann", READ, "web"))
        self.assertFalse(self.allowed([allow("ann", READ, "w*")], "ann", READ, "web"))
        self.assertTrue(self.allowed([allow(EVERYONE, READ, "*")], ANONYMOUS, READ, "web"))

    def test_some_operations_imply_describing(self) -> None:
        """Only where they are allowed: a denial of reading leaves a permission to describe as it is."""
        for operation in (READ, WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL, DESCRIBE):
            self.assertTrue(self.allowed([allow("ann", operation, "t")], "ann", DESCRIBE, "t"), operation)
        self.assertFalse(self.allowed([allow("ann", Operation.CREATE, "t")], "ann", DESCRIBE, "t"))
        self.assertTrue(self.allowed([deny("ann", READ, "t"), allow("ann", DESCRIBE, "t")], "ann", DESCRIBE, "t"))
        self.assertFalse(self.allowed([deny("ann", DESCRIBE, "t"), allow("ann", READ, "t")], "ann", DESCRIBE, "t"))

    def test_of_many_rules_only_those_that_may_match_are_looked_at(self) -> None:
        """Names come from clients: a question about each of 10,000 topics must not look at 10,000 rules each time."""
        looked: list[str] = []

        def applies_to(rule: AccessRule, operation: Operation, name: str) -> bool:
            looked.append(rule.name)
            return True

        self.patch(AccessRule, "applies_to", applies_to)
        made = [
            allow(user, READ, f"{user[0]}{number}.", match)
            for number in range(1000)
            for user in ("ann", EVERYONE)
            for match in Match
        ]
        rules = AccessRules([*made, deny("ann", READ, "a77.x"), allow("ann", READ, "*")])
        self.assertFalse(rules.allows("ann", READ, TOPIC, "a77.x"))
        self.assertEqual(sorted(looked), ["*", "a77.", "a77.x"])
        looked.clear()
        self.assertTrue(rules.allows("ann", READ, TOPIC, "*999."))
        self.assertEqual(looked, ["*", "*999.", "*999."])
        self.assertTrue(rules.allows("ann", READ, TOPIC, "*"))

    def test_any_rules_decide_as_a_look_at_all_of_them_does(self) -> None:
        """Principals, names, prefixes, stars and denials by chance."""
        random = Random(7)
        names = ["*", "a", "ab", "abc", "b", "ba"]
        for _ in range(300):
            made = [
                AccessRule(
                    random.choice(("ann", "bob", EVERYONE)),
                    random.choice(list(Effect)),
                    random.choice(list(Operation)),
                    random.choice((TOPIC, GROUP)),
                    random.choice(names),
                    random.choice(list(Match)),
                )
                for _ in range(random.randrange(8))
            ]
            rules = AccessRules(made)
            for operation, name in product((READ, DESCRIBE, Operation.CREATE), [*names, "abcd", "c"]):
                of_topic = [
                    each for each in made if each.resource_type is TOPIC and each.principal in ("ann", EVERYONE)
                ]
                found = [each.effect for each in of_topic if each.applies_to(operation, name)]
                expected = Effect.ALLOW in found and Effect.DENY not in found
                self.assertEqual(rules.allows("ann", operation, TOPIC, name), expected, (made, operation, name))
                some = any(
                    each.effect is Effect.ALLOW and each.operation in (operation, Operation.ALL) for each in of_topic
                )
                self.assertEqual(rules.allows_some("ann", operation, TOPIC), some)

    def test_the_rule_that_decides_is_named(self) -> None:
        """A denial before any permission."""
        rules = AccessRules([allow("ann", READ, "t"), deny(EVERYONE, READ, "t")])
        self.assertEqual(str(rules.deciding("ann", READ, TOPIC, "t")), "deny * to read topic t")
        self.assertIsNone(rules.deciding("ann", WRITE, TOPIC, "t"))

    def test_remembered_answers_are_bounded(self) -> None:
        """Names come from clients, who may ask for any."""
        rules = AccessRules([allow("ann", READ, "t")])
        for number in range(MOST_REMEMBERED + 10):
            rules.allows("ann", READ, TOPIC, f"t{number}")
        self.assertLessEqual(len(rules._known), MOST_REMEMBERED)
        self.assertTrue(rules.allows("ann", READ, TOPIC, "t"))

    def test_names_longer_than_those_of_resources_are_not_remembered(self) -> None:
        """A request has room for names of 32 KiB: fifty thousand of them would fill the memory of a broker."""
        rules = AccessRules([allow("ann", READ, "t", Match.PREFIX)])
        self.assertTrue(rules.allows("ann", READ, TOPIC, "t" * (MOST_CHARACTERS + 1)))
        self.assertFalse(rules.allows("ann", READ, TOPIC, "u" * (MOST_CHARACTERS + 1)))
        self.assertEqual(len(rules._known), 0)
        rights = Rights(Authorizer(True), Requester("ann", authenticated=True))
        rights.authorizer.take(rules, True)
        for length in (MOST_CHARACTERS, MOST_CHARACTERS + 1):
            for _ in range(2):
                self.assertIsNone(rights.topic_refusal(READ, "t" * length))
        self.assertEqual([len(name) for _, name in rights._allowed], [MOST_CHARACTERS])

    def test_a_permission_for_any_resource(self) -> None:
        """It is asked by requests that name none."""
        rules = AccessRules([allow("ann", WRITE, "web.", Match.PREFIX)])
        self.assertTrue(rules.allows_some("ann", WRITE, TOPIC))
        self.assertFalse(rules.allows_some("ann", READ, TOPIC))
        self.assertFalse(rules.allows_some("ann", WRITE, GROUP))


class AccessRuleTests(SynchronousTestCase):
    """The form of a rule."""

    def test_a_rule_is_what_its_node_says(self) -> None:
        """Equal rules have equal ids, others have others."""
        rule = allow("ann", READ, "web.", Match.PREFIX)
        content = {
            "principal": "ann",
            "effect": "allow",
            "operation": "read",
            "type": "topic",
            "name": "web.",
            "match": "prefix",
        }
        self.assertEqual(AccessRule.from_json(content), rule)
        self.assertEqual(AccessRule.from_json(content).id, rule.id)
        self.assertNotEqual(allow("ann", READ, "web.").id, rule.id)

    def test_names_that_no_resource_can_have_are_refused(self) -> None:
        """The error says what is allowed."""
        for name in ("", "a\nb", "x" * 250):
            with self.assertRaises(ConfigurationError):
                allow("ann", READ, name)
        with self.assertRaises(ConfigurationError):
            AccessRule("ann", Effect.ALLOW, READ, CLUSTER, "other")

    def test_names_of_principals(self) -> None:
        """They are parts of paths, lists and command lines."""
        for name in ("ann", "Jürgen", "a.b@c-d_e", "x" * 200):
            self.assertEqual(check_principal(name), name)
        for name in ("", "a b", "a/b", "User:ann", "*", "a,b", "a\0", ".", "..", 'a"', "x" * 201):
            with self.assertRaises(ConfigurationError):
                check_principal(name)
