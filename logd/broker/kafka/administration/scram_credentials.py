"""Kafka's DescribeUserScramCredentials and AlterUserScramCredentials, over the users in the coordination tree.

A user here has one password, for both mechanisms and for the coordination tree. Kafka's clients send a password salted
and hashed for one mechanism, of which the verifier of the other one and the tree's digest cannot be made: no user could
be added whole, and of a user that exists the old password would go on working for the rest. So users are added, and
given other passwords, by ``logd users``; to delete both credentials of a user is to remove the user.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from logd.broker.kafka.administration.refusals import ChangeOutcome, Refused, code_of, outcome_of
from logd.broker.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    DUPLICATE_RESOURCE,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNSUPPORTED_SASL_MECHANISM,
)
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.coord.errors import CoordinationError
from logd.coord.registries.users import remove_user
from logd.errors import ConfigurationError, LogdError
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation
from logd.security.users import check_user_name

DESCRIBE_USER_SCRAM_CREDENTIALS, ALTER_USER_SCRAM_CREDENTIALS = APIS[50], APIS[51]
#: Kafka's numbers of the mechanisms.
MECHANISM_NUMBERS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
#: Users of one request that are changed.
MOST_USERS = 1000


class KafkaScramCredentials:
    """These requests of one connection. Each change and each refusal is in the log of administration."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._tree = broker.kafka_groups.get().coordination
        self._authentication = broker.authentication
        self._turns = broker.turns
        self._log = broker.administration_log
        self._rights = rights

    async def describe_user_scram_credentials(self, request: Any) -> Any:
        """Return the mechanisms and iterations of the users that are asked for; of all, if none is named."""
        outcome, results = ChangeOutcome(), []
        kind = DESCRIBE_USER_SCRAM_CREDENTIALS.response_class.DescribeUserScramCredentialsResult
        try:
            self._rights.check_cluster(Operation.DESCRIBE)
            self._authentication.check_known()
            named = Counter(each.name for each in request.users or ())
            for name in named or sorted(self._authentication.users):
                results.append(self._described(name, named[name]))
        except LogdError as error:
            # As Kafka has it: for the whole request, and once more for each user that it names.
            outcome = ChangeOutcome(code_of(error), str(error))
            results = [
                kind(user=each.name, error_code=outcome.code, error_message=outcome.text, credential_infos=[])
                for each in request.users or ()
            ]
        return DESCRIBE_USER_SCRAM_CREDENTIALS.response(
            throttle_time_ms=0, error_code=outcome.code, error_message=outcome.text, results=results
        )

    def _described(self, name: str, times: int) -> Any:
        kind = DESCRIBE_USER_SCRAM_CREDENTIALS.response_class.DescribeUserScramCredentialsResult
        user = self._authentication.users.get(name)
        outcome = ChangeOutcome()
        if times > 1:
            outcome = ChangeOutcome(DUPLICATE_RESOURCE, f"{name!r} is named {times} times")
        elif user is None:
            outcome = ChangeOutcome(RESOURCE_NOT_FOUND, f"there is no user {name!r}")
        kept = {} if outcome.code or user is None else user.verifiers
        infos = [
            kind.CredentialInfo(mechanism=number, iterations=kept[mechanism].iterations)
            for number, mechanism in MECHANISM_NUMBERS.items()
            if mechanism in kept
        ]
        return kind(user=name, error_code=outcome.code, error_message=outcome.text, credential_infos=infos)

    async def alter_user_scram_credentials(self, request: Any) -> Any:
        """Remove the users whose credentials are all deleted. Everything else is refused, and changes nothing."""
        kind = ALTER_USER_SCRAM_CREDENTIALS.response_class.AlterUserScramCredentialsResult
        added = {each.name for each in request.upsertions}
        deleted: dict[str, list[int]] = {name: [] for name in added}
        for each in request.deletions:
            deleted.setdefault(each.name, []).append(each.mechanism)
        results, turns = [], self._turns()
        for number, (name, mechanisms) in enumerate(sorted(deleted.items())):
            if turns.over:
                await turns.rest()
            work = self._alter(name, name in added, mechanisms, number)
            outcome = await outcome_of(work, self._log, self._rights.requester, "change user", name)
            results.append(kind(user=name, error_code=outcome.code, error_message=outcome.text))
        return ALTER_USER_SCRAM_CREDENTIALS.response(throttle_time_ms=0, results=results)

    async def _alter(self, name: str, adds: bool, mechanisms: list[int], number: int) -> None:
        self._rights.check_cluster(Operation.ALTER)
        if number >= MOST_USERS:
            raise Refused(INVALID_REQUEST, f"a request may change {MOST_USERS} users")
        if adds:
            raise Refused(
                UNACCEPTABLE_CREDENTIAL,
                "a user has one password for all mechanisms and for the coordination tree, and they cannot be made of "
                f"one that is hashed for one mechanism: use logd users add {name}, or logd users password {name}",
            )
        if not set(mechanisms) <= MECHANISM_NUMBERS.keys():
            raise Refused(UNSUPPORTED_SASL_MECHANISM, f"{mechanisms} are not all known: {MECHANISM_NUMBERS}")
        if len(mechanisms) > len(set(mechanisms)):
            raise Refused(DUPLICATE_RESOURCE, f"a mechanism of {name!r} is named twice")
        try:
            check_user_name(name)
        except ConfigurationError as error:
            raise Refused(RESOURCE_NOT_FOUND, str(error)) from error
        if len(mechanisms) < len(MECHANISM_NUMBERS):
            raise Refused(
                UNACCEPTABLE_CREDENTIAL,
                "a user has one password for all mechanisms: delete those of "
                f"{' and '.join(MECHANISM_NUMBERS.values())} together, which removes the user",
            )
        try:
            existed = await remove_user(self._tree, name)
        except CoordinationError as error:
            text = f"the coordination tree does not answer: {error}"
            raise Refused(COORDINATOR_NOT_AVAILABLE, text) from error
        if not existed:
            raise Refused(RESOURCE_NOT_FOUND, f"there is no user {name!r}")
        self._log.record(self._rights.requester, "remove user", name)
