"""The requests about groups of one connection: the handler of each."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from logd.broker.kafka.groups.administration import GroupAdministration
from logd.broker.kafka.groups.group_rights import GroupRights
from logd.broker.kafka.groups.members import Caller
from logd.broker.kafka.groups.membership_requests import MembershipRequests
from logd.broker.kafka.groups.offset_requests import OffsetRequests
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.protocol.kafka.apis import APIS, KafkaApi


class KafkaGroupRequests:
    """These requests of one connection."""

    def __init__(
        self, broker: BrokerCore, peer: str, addresses: Callable[[], dict[int, tuple[str, int]]], rights: Rights
    ) -> None:
        """``addresses()`` returns where the client reaches each broker, by the brokers' ids."""
        self._caller = Caller(peer.rpartition(":")[0])
        allowed = GroupRights(rights)
        self._membership = members = MembershipRequests(broker, self._caller, addresses, allowed)
        offsets = OffsetRequests(broker, allowed)
        self._administration = groups = GroupAdministration(broker, addresses, allowed)
        named: dict[int, Callable[[Any], Coroutine[Any, Any, Any]]] = {
            8: offsets.commit,
            9: offsets.fetch,
            10: members.find_coordinator,
            11: members.join,
            12: members.heartbeat,
            13: members.leave,
            14: members.sync,
            15: groups.describe,
            16: groups.list_all,
            42: groups.delete,
            47: offsets.delete,
        }
        #: The handlers by their requests.
        self.handlers: dict[KafkaApi, Callable[[Any], Coroutine[Any, Any, Any]]] = {
            APIS[number]: handler for number, handler in named.items()
        }

    def called_by(self, client_id: str) -> None:
        """Note the client's name for itself, for the requests that follow."""
        self._caller.client_id = client_id

    def lost(self) -> None:
        """Stop waiting on behalf of the lost connection, and look for nothing more."""
        self._membership.lost()
        self._administration.lost()
