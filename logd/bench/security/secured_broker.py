"""A broker with users, access rules and quotas, for a bench."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from attrs import define
from twisted.internet.threads import deferToThread

from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.coord.interfaces import ICoordination
from logd.coord.registries.access_rules import add_rule, remove_rule
from logd.coord.registries.quotas import change_quota
from logd.coord.registries.users import add_user, remove_user
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.deferreds.gathering import gather_some
from logd.deferreds.sleeping import sleep
from logd.errors import AuthenticationFailed, ClusterAuthorizationFailed, TopicAuthorizationFailed
from logd.protocol.message import Message
from logd.security.access_rules import AccessRule
from logd.security.quotas import NO_QUOTA, Quota
from logd.security.users import User
from logd.testing.processes.broker import BrokerProcess

#: The superuser that makes the topics, and the password of all users.
ADMINISTRATOR, PASSWORD = "administrator", "bench"
#: Seconds within which a broker follows a change, and the pause between attempts.
PATIENCE, PAUSE = 10.0, 0.05
#: Rules that are written at a time.
AT_ONCE = 20
#: The errors of a broker that does not know the users and rules of now.
_NOT_YET = (AuthenticationFailed, TopicAuthorizationFailed, ClusterAuthorizationFailed)


@define
class SecuredBroker:
    """A running broker, and its tree. Without users and rules it is open."""

    reactor: Any
    process: BrokerProcess
    tree: ICoordination
    users: tuple[str, ...] = ()
    rules: tuple[AccessRule, ...] = ()

    @property
    def address(self) -> str:
        """The broker's address."""
        return self.process.address

    def access(self, user: str) -> dict[str, Any]:
        """Return the settings of a client of this user; none if the broker is open."""
        return {"user": user, "password": PASSWORD} if self.users else {}

    async def secure(
        self, users: Iterable[str], rules: Iterable[AccessRule], quotas: Mapping[str, Quota] | None = None
    ) -> None:
        """Add users, rules and quotas."""
        self.rules, self.users = tuple(rules), (*users, ADMINISTRATOR)
        tree = self.tree
        await gather_some([add_rule(tree, rule) for rule in self.rules], AT_ONCE)
        for user, quota in (quotas or {}).items():
            await change_quota(tree, user, quota.over)
        for user in self.users:
            await add_user(tree, user, User.of(user, PASSWORD, os.urandom))

    async def open(self) -> None:
        """Remove all users, rules and quotas."""
        for user in self.users:
            await change_quota(self.tree, user, lambda _: NO_QUOTA)
            await remove_user(self.tree, user)
        await gather_some([remove_rule(self.tree, rule) for rule in self.rules], AT_ONCE)
        self.rules, self.users = (), ()

    async def create(self, topic: str) -> None:
        """Make a topic of one partition."""
        await self._patiently(lambda admin: admin.create(topic, 1))

    async def delete(self, topic: str) -> None:
        """Delete a topic with all its messages."""
        await self._patiently(lambda admin: admin.delete(topic))

    async def wait_until_allowed(self, topic: str, user: str) -> None:
        """Wait until the broker lets the user produce: its rules are seen."""
        deadline = self.reactor.seconds() + PATIENCE
        while True:
            producer = Producer(self.address, reactor=self.reactor, **self.access(user))
            try:
                await producer.send(topic, [Message(b"first")], partition=0)
                return
            except _NOT_YET:
                if self.reactor.seconds() > deadline:
                    raise
            finally:
                await producer.close()
            await sleep(self.reactor, PAUSE)

    async def set_quota(self, user: str, quota: Quota) -> None:
        """Give a user a quota."""
        await change_quota(self.tree, user, lambda _: quota)

    async def _patiently(self, work: Any) -> None:
        deadline = self.reactor.seconds() + PATIENCE
        while True:
            admin = Admin(self.address, reactor=self.reactor, **self.access(ADMINISTRATOR))
            try:
                await work(admin)
                return
            except _NOT_YET:
                if self.reactor.seconds() > deadline:
                    raise
            finally:
                await admin.close()
            await sleep(self.reactor, PAUSE)


@asynccontextmanager
async def secured_broker(
    reactor: Any,
    folder: str,
    users: Iterable[str] = (),
    rules: Iterable[AccessRule] = (),
    quotas: Mapping[str, Quota] | None = None,
) -> AsyncIterator[SecuredBroker]:
    """Start a broker, open without ``users``; stop it at the end, and remove its files."""
    with scratch(folder) as place:
        options = ["--set", f"security.superusers={ADMINISTRATOR}"]
        process = BrokerProcess(f"{place}/data", options, log_path=f"{place}/broker.log")
        tree = None
        try:
            await deferToThread(process.start)
            tree = ZooKeeperCoordination(reactor, CoordinationSettings(hosts=process.coordination))
            await tree.connect()
            broker = SecuredBroker(reactor, process, tree)
            if users := tuple(users):
                await broker.secure(users, rules, quotas)
            yield broker
        finally:
            if tree is not None:
                await tree.close()
            await deferToThread(process.stop)
