"""Access lists and the protection of a tree, the same steps at ``logd zookeeper`` and at a real ZooKeeper.

One server serves all tests of a class, each below a path of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twisted.internet import reactor as _reactor
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.coord import paths
from logd.coord.access_lists import ANYONE, Protection
from logd.coord.errors import BadVersion, CoordinationError, InvalidAcl, NoAuth, NoNode
from logd.coord.protection import TreeProtection
from logd.coord.records import OPEN_ACL, Acl, Create, Delete, Permission, SessionState, SetData
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.security.users import zookeeper_digest
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing
from tests.coord.proxy import Proxy
from tests.coord.session_states import SessionStates
from tests.integration.shared_servers import shared

if TYPE_CHECKING:
    _Case = TestCase
else:
    _Case = object

reactor: Any = _reactor
ANN, BEN = ("ann", "a:pass:word"), ("ben", "another")
ANN_ID, BEN_ID = zookeeper_digest(*ANN), zookeeper_digest(*BEN)


class AccessContract(_Case):
    """The rights of clients to nodes of others."""

    timeout = 240
    kind: type[CoordinationProcess] | type[ZooKeeperProcess]

    async def setUp(self) -> None:  # type: ignore[override]
        """Connect a client without credentials, and make the root."""
        make: Callable[[str], AbstractContextManager[CoordinationProcess | ZooKeeperProcess]] = self.kind
        self.server = await deferToThread(lambda: shared(make))
        self.chroot = f"/{uuid4().hex}"
        self.stranger = await self.connect()

    async def connect(self, *users: tuple[str, str], hosts: str = "") -> ZooKeeperCoordination:
        """Return a connected client with these credentials."""
        settings = CoordinationSettings(
            hosts=f"{hosts or self.server.hosts}{self.chroot}", digests=tuple(map(":".join, users))
        )
        client = ZooKeeperCoordination(reactor, settings)
        self.addCleanup(client.close)
        await client.connect()
        return client

    async def refused(self, deferred: Any, error: type[CoordinationError] = NoAuth) -> None:
        """Check that a call fails with this error and no other."""
        await self.assertFailure(deferred, error)

    async def test_every_permission_is_asked_for(self) -> None:
        """Each permission allows what it names, and nothing else, to whoever has it."""
        owner, stranger = await self.connect(ANN), self.stranger
        acl_of: dict[str, tuple[Acl, ...]] = {}
        calls: dict[Permission, Any] = {
            Permission.READ: lambda path: stranger.get(path),
            Permission.WRITE: lambda path: stranger.set(path, b"new"),
            Permission.CREATE: lambda path: stranger.create(f"{path}/made"),
            Permission.DELETE: lambda path: stranger.delete(f"{path}/child"),
            Permission.ADMIN: lambda path: stranger.set_acl(path, acl_of[path]),
        }
        for granted in (*calls, None):
            path = f"/{granted.name if granted else 'none'}"
            mine = Acl(Permission.ALL, "digest", ANN_ID)
            acl_of[path] = acl = (mine, Acl(granted, *ANYONE)) if granted else (mine,)
            await owner.create(path, b"old", acl=acl)
            await owner.create(f"{path}/child", acl=acl)
            for needed, call in calls.items():
                if needed is granted:
                    await call(path)
                else:
                    await self.refused(call(path))
            if granted is not Permission.READ:
                await self.refused(stranger.get_children(path))
                await self.refused(stranger.exists(path))

    async def test_lists_have_versions_and_their_own_secrets(self) -> None:
        """A list is changed at the version demanded; digests are shown to those who may administer the node alone."""
        owner = await self.connect(ANN)
        await owner.create("/a", acl=[Acl(Permission.ALL, "auth", ""), Acl(Permission.READ, *ANYONE)])
        acl, stat = await owner.get_acl("/a")
        mine, read = Acl(Permission.ALL, "digest", ANN_ID), Acl(Permission.READ, *ANYONE)
        self.assertEqual((set(acl), stat.acl_version), ({mine, read}, 0))
        self.assertEqual(set((await self.stranger.get_acl("/a"))[0]), {mine._replace(identity="ann:x"), read})
        await self.refused(self.stranger.set_acl("/a", OPEN_ACL))
        stat = await owner.set_acl("/a", [mine], 0)
        self.assertEqual((stat.acl_version, stat.version), (1, 0))
        await self.refused(owner.set_acl("/a", [read], 0), BadVersion)
        await self.refused(self.stranger.get_acl("/a"))
        await self.refused(owner.get_acl("/b"), NoNode)
        await self.refused(owner.set_acl("/b", [mine]), NoNode)
        await self.refused(owner.set_acl("/a", []), InvalidAcl)
        await self.refused(owner.set_acl("/a", [Acl(31, "digest", "nocolon")]), InvalidAcl)
        await self.refused(self.stranger.create("/c", acl=[Acl(31, "auth", "")]), InvalidAcl)
        await owner.set_acl("/a", [Acl(Permission.ALL, "digest", BEN_ID)])
        await self.refused(owner.get("/a"))

    async def test_credentials_are_those_of_the_connection(self) -> None:
        """A wrong password is another identity; two are both; they come again with each connection, and only there."""
        owner = await self.connect(ANN)
        await owner.create("/a", acl=[Acl(Permission.ALL, "digest", ANN_ID)])
        await self.refused((await self.connect(("ann", "wrong"))).get("/a"))
        await self.refused((await self.connect(BEN)).get("/a"))
        await (await self.connect(BEN, ANN)).get("/a")
        proxy = await Proxy(reactor, self.server.port).start()
        self.addCleanup(lambda: proxy.stop())
        behind = await self.connect(ANN, hosts=proxy.hosts)
        states = SessionStates(behind)
        connected = states.next(SessionState.CONNECTED)
        proxy.cut()
        await connected
        await behind.get("/a")
        await self.refused(self.stranger.multi([Create("/b"), SetData("/a", b"")]))
        self.assertIsNone(await self.stranger.exists("/b"))
        await behind.multi([SetData("/a", b"1"), Create("/a/b"), Delete("/a/b")])

    async def test_a_tree_is_protected_and_opened_again(self) -> None:
        """Strangers can do what its state says; the nodes of a group keep their users."""
        brokers, stranger = await self.connect(("logd", "secret")), self.stranger
        for path in ("/brokers/topics/t", paths.SECRET, paths.user("ann"), paths.group_owners("g", "t"), "/schemas/x"):
            await stranger.create(path, b"x", makepath=True)
        await stranger.set_acl("/consumers/g", [*OPEN_ACL, Acl(15, "digest", ANN_ID)])
        protection = TreeProtection(brokers, True)
        changed: list[str] = []
        self.assertEqual(await protection.protect(changed.append, True), 0)
        self.assertEqual({row.worst for row in await protection.summary()}, {Protection.PROTECTED})
        self.assertEqual(await protection.protect(self.fail, True), 0)
        for call in (
            stranger.get(paths.SECRET),
            stranger.get(paths.user("ann")),
            stranger.get_children("/consumers/g"),
            stranger.set("/brokers/topics/t", b""),
            stranger.create("/brokers/topics/t/partitions"),
            stranger.delete("/brokers/topics/t"),
            stranger.delete("/schemas/x"),
            stranger.create(paths.CONTROLLER),
        ):
            await self.refused(call)
        await stranger.get("/brokers/topics/t")
        await (await self.connect(ANN)).get_children("/consumers/g")
        opened: list[str] = []
        self.assertEqual(await protection.unprotect(opened.append), 0)
        self.assertLess(set(changed), set(opened))
        await stranger.get(paths.SECRET)
        await stranger.create(paths.CONTROLLER)


class EmbeddedAccessTests(AccessContract, TestCase):
    """At ``logd zookeeper``."""

    kind = CoordinationProcess


class RealAccessTests(AccessContract, TestCase):
    """At a real ZooKeeper."""

    skip = missing() or None
    kind = ZooKeeperProcess
