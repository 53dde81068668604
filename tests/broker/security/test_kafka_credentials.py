"""Tests of DescribeUserScramCredentials and AlterUserScramCredentials: users as Kafka's tools see and remove them."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from twisted.internet.defer import Deferred

from logd.broker.kafka.error_codes import CLUSTER_AUTHORIZATION_FAILED
from logd.coord.registries.access_rules import add_rule, remove_rule
from logd.coord.registries.users import add_user
from logd.security.access_rules import AccessRule, Effect, Operation, ResourceType
from logd.security.principals import ANONYMOUS
from logd.security.users import User
from tests.broker.kafka.rig import KafkaTestCase
from tests.broker.security.test_native_rights import change_rule

SHA_256, SHA_512 = 1, 2
NOT_FOUND, DUPLICATE, UNACCEPTABLE, UNSUPPORTED = 91, 92, 93, 33


class ScramCredentialTests(KafkaTestCase):
    """A broker with the users ann and bob, and a rule that opens the cluster to whoever has not authenticated."""

    def setUp(self) -> None:
        """Add them."""
        super().setUp()
        self.peer = self.kafka()
        rule = AccessRule(ANONYMOUS, Effect.ALLOW, Operation.ALL, ResourceType.CLUSTER, "cluster")
        change_rule(self, add_rule, rule)
        self.rule = rule
        for name in ("ann", "bob"):
            adding = Deferred.fromCoroutine(add_user(self.access.client, name, User.of(name, "secret", bytes)))
            self.settle()
            self.successResultOf(adding)

    def describe(self, *names: str) -> dict[str, Any]:
        """Return what is known of users: (mechanism, iterations) pairs, or an error, by the name."""
        kind = DescribeUserScramCredentialsRequest.UserName
        users = [kind(name=name) for name in names] or None
        answer = self.ask(self.peer, DescribeUserScramCredentialsRequest[0](users=users))
        self.assertEqual(answer.error_code, 0, answer.error_message)
        return {
            each.user: each.error_code or [(info.mechanism, info.iterations) for info in each.credential_infos]
            for each in answer.results
        }

    def alter(self, deleted: tuple[tuple[str, int], ...] = (), added: tuple[str, ...] = ()) -> dict[str, int]:
        """Delete credentials, and add one for SHA-256; return the errors by the users' names."""
        kind = AlterUserScramCredentialsRequest
        request = kind[0](
            deletions=[kind.ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deleted],
            upsertions=[
                kind.ScramCredentialUpsertion(
                    name=name, mechanism=SHA_256, iterations=8192, salt=bytes(16), salted_password=bytes(32)
                )
                for name in added
            ],
        )
        answer = self.ask(self.peer, request)
        return {each.user: each.error_code for each in answer.results}

    def test_users_are_described(self) -> None:
        """With both mechanisms each, and nothing that proves the password; unknown and doubled names are told."""
        both = [(SHA_256, 8192), (SHA_512, 8192)]
        self.assertEqual(self.describe(), {"ann": both, "bob": both})
        self.assertEqual(self.describe("bob", "eve"), {"bob": both, "eve": NOT_FOUND})
        self.assertEqual(self.describe("bob", "bob"), {"bob": DUPLICATE})

    def test_a_refusal_names_each_user_that_was_asked_for(self) -> None:
        """The whole request has the error, and each result of it, in the form of Kafka."""
        change_rule(self, remove_rule, self.rule)
        kind = DescribeUserScramCredentialsRequest
        named = self.ask(self.peer, kind[0](users=[kind.UserName(name=name) for name in ("ann", "eve")]))
        self.assertEqual(named.error_code, CLUSTER_AUTHORIZATION_FAILED)
        self.assertEqual(
            [(each.user, each.error_code, each.credential_infos) for each in named.results],
            [("ann", CLUSTER_AUTHORIZATION_FAILED, []), ("eve", CLUSTER_AUTHORIZATION_FAILED, [])],
        )
        everybody = self.ask(self.peer, kind[0](users=None))
        self.assertEqual((everybody.error_code, everybody.results), (CLUSTER_AUTHORIZATION_FAILED, []))

    def test_deleting_both_credentials_removes_the_user(self) -> None:
        """The other users stay, and a second deletion finds nobody."""
        whole = (("ann", SHA_256), ("ann", SHA_512))
        self.assertEqual(self.alter(whole), {"ann": 0})
        self.assertEqual(set(self.describe()), {"bob"})
        self.assertEqual(self.alter(whole), {"ann": NOT_FOUND})

    def test_what_would_leave_a_user_with_two_passwords_is_refused(self) -> None:
        """One mechanism alone is neither added nor deleted, and nothing is changed beside a refusal for the user."""
        before = dict(self.broker.authentication.users)
        self.assertEqual(self.alter(added=("eve", "ann")), {"ann": UNACCEPTABLE, "eve": UNACCEPTABLE})
        self.assertEqual(self.alter((("ann", SHA_256),)), {"ann": UNACCEPTABLE})
        self.assertEqual(self.alter((("ann", SHA_256), ("ann", SHA_512)), ("ann",)), {"ann": UNACCEPTABLE})
        self.assertEqual(self.alter((("ann", SHA_256), ("ann", 3))), {"ann": UNSUPPORTED})
        self.assertEqual(self.alter((("ann", SHA_256), ("ann", SHA_256))), {"ann": DUPLICATE})
        self.assertEqual(self.alter((("../rules/x", SHA_256), ("../rules/x", SHA_512))), {"../rules/x": NOT_FOUND})
        self.assertEqual(self.broker.authentication.users, before)
