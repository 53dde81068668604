"""The access lists of consumer groups: for the users that rules let read there, and for brokers.

A user's consumers ask a broker to prepare their group (PrepareGroup). The broker gives the group's nodes to that user,
by the digest that is kept of the password, beside the users that have them already. Users that were removed, have
another password or may not read in the group any more lose its nodes within seconds: every broker looks at all groups
after a change, and changes what no other broker has changed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import ClassVar

from attrs import define, field
from twisted.logger import Logger

from logd.broker.security.authorizer import Authorizer
from logd.broker.security.requester import Requester
from logd.coord import paths
from logd.coord.access_lists import ANYONE, PRIVATE_ACL, Audience, BrokerAccess, Protection
from logd.coord.errors import BadVersion, CoordinationError, InvalidAcl, NoAuth, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.protection import below
from logd.coord.records import OPEN_ACL, Acl, Create, Delete, Permission
from logd.deferreds.background import Background
from logd.deferreds.gathering import gather
from logd.deferreds.locking import QueueSemaphore
from logd.deferreds.sleeping import sleep
from logd.errors import CoordinationUnavailable, GroupAuthorizationFailed, InvalidRequest
from logd.interfaces import Clock
from logd.security.access_rules import Operation, ResourceType
from logd.security.principals import ANONYMOUS, BROKER
from logd.security.users import User

#: The permissions of users: everything but changing access lists.
USER_PERMISSIONS = int(Permission.READ | Permission.WRITE | Permission.CREATE | Permission.DELETE)
#: Groups that are changed at a time.
_AT_ONCE = 4
#: Seconds for which changes of users and rules are gathered, and before a failure is tried again.
_GATHER_SECONDS, _AGAIN_SECONDS = 0.2, 2.0


@define(eq=False)
class GroupAccess:
    """Prepares groups at one broker, and takes them away from users that lost their rights.

    Without credentials of the broker in the tree, or without users and rules, groups are open to all clients.
    """

    _log: ClassVar[Logger] = Logger()

    _tree: ICoordination
    _authorizer: Authorizer
    _clock: Clock
    _users: Mapping[str, User] = field(factory=dict, init=False)
    #: Users or rules have changed since the last sweep began.
    _stale: bool = field(default=False, init=False)
    _sweeping: bool = field(default=False, init=False)
    _turns: QueueSemaphore = field(factory=lambda: QueueSemaphore(_AT_ONCE), init=False)
    _background: Background = field(factory=lambda: Background("the access lists of groups"), init=False)

    def __attrs_post_init__(self) -> None:
        self._authorizer.on_change(self.changed)

    @property
    def closed(self) -> bool:
        """True if groups belong to users."""
        return bool(self._tree.access_lists.own) and not self._authorizer.open

    def take(self, users: Mapping[str, User]) -> None:
        """Take the users that the tree has now."""
        self._users = dict(users)
        self.changed()

    def changed(self) -> None:
        """Look at all groups again, soon: users or rules have changed."""
        if not self._tree.access_lists.own:
            return
        self._tree.access_lists.groups = PRIVATE_ACL if self.closed else None
        self._stale = True
        if not self._sweeping and self.closed and self._authorizer.is_known:
            self._sweeping = True
            self._background.start(self._sweep_while_stale())

    def stop(self) -> None:
        """Stop looking."""
        self._background.stop()

    async def prepare(self, requester: Requester, group: str, again: bool) -> tuple[Acl, ...]:
        """Give a group's nodes to a requester that may read there; return the access list of nodes that it makes.

        The list is empty where groups are open. Raises a WireError.
        """
        try:
            root = paths.group(group)
        except ValueError as error:
            raise InvalidRequest(f"group {group!r}: {error}") from None
        if not self.closed:
            return ()
        row = self._row_of(requester, group)
        await self._turns.acquire()
        try:
            await self._close_parent()
            acl, changed = await self._give(root, group, row)
            if changed or again:
                await self._give_below(root, acl)
        except (NoAuth, InvalidAcl) as error:
            raise GroupAuthorizationFailed(
                f"the nodes of group {group!r} in the coordination tree belong to others, so that brokers cannot give "
                f"them to {requester.principal}: {error} An administrator may open them with the credentials of their "
                "owner (logd tree unprotect)"
            ) from error
        except CoordinationError as error:
            raise CoordinationUnavailable(f"group {group!r} cannot be prepared now: {error}") from error
        finally:
            self._turns.release()
        return (*BrokerAccess(self._tree.access_lists.own).rows(), *(() if row is None else (row,)))

    def _row_of(self, requester: Requester, group: str) -> Acl | None:
        """Return the requester's row, None for a broker. Raises GroupAuthorizationFailed for a user without one."""
        principal = requester.principal
        if not requester.authenticated or principal == ANONYMOUS:
            return Acl(USER_PERMISSIONS, *ANYONE)
        if principal == BROKER:
            return None
        user = self._users.get(principal)
        if user is None or not user.digest:
            raise GroupAuthorizationFailed(
                f"{principal} has no password, by which the coordination tree could know it: consumers of group "
                f"{group!r} need one (logd users add {principal})"
            )
        return Acl(USER_PERMISSIONS, "digest", user.digest)

    def _kept(self, acl: Iterable[Acl], group: str) -> list[Acl]:
        """Return the rows of users that may read in the group still, by the password that they have now."""
        kept = []
        for row in acl:
            if (row.scheme, row.identity) == ANYONE:
                allowed = self._may(Requester(), group)
            else:
                name = row.identity.split(":", 1)[0]
                user = self._users.get(name) if row.scheme == "digest" else None
                known = user is not None and user.digest == row.identity
                allowed = known and self._may(Requester(name, authenticated=True), group)
            if allowed and row.permissions & Permission.READ:
                kept.append(row._replace(permissions=USER_PERMISSIONS))
        return kept

    def _may(self, requester: Requester, group: str) -> bool:
        return self._authorizer.allows(requester, Operation.READ, ResourceType.GROUP, group)

    def _wanted(self, acl: Iterable[Acl], group: str, row: Acl | None) -> tuple[Acl, ...]:
        rows = [*BrokerAccess(self._tree.access_lists.own).rows(), *self._kept(acl, group)]
        if row is not None:
            rows.append(row)
        return tuple(dict.fromkeys(rows))

    async def _close_parent(self) -> None:
        """Have the parent of all groups belong to brokers: otherwise strangers could make a group's nodes first."""
        access = BrokerAccess(self._tree.access_lists.own)
        wanted = access.protected(Audience.GROUP, ())
        with suppress(NodeExists):
            await self._tree.create(paths.CONSUMERS, acl=wanted)
            return
        while True:
            acl, stat = await self._tree.get_acl(paths.CONSUMERS)
            if access.state(Audience.GROUP, acl) is Protection.PROTECTED:
                return
            with suppress(BadVersion):
                await self._tree.set_acl(paths.CONSUMERS, wanted, stat.acl_version)
                self._log.info("{path} belongs to brokers now: they make the nodes of groups", path=paths.CONSUMERS)

    async def _give(self, root: str, group: str, row: Acl | None) -> tuple[tuple[Acl, ...], bool]:
        """Make the group's node, or change its list; return the list, and whether the nodes below need it too."""
        while True:
            wanted = self._wanted((), group, row)
            with suppress(NodeExists):
                await self._tree.create(root, acl=wanted)
                for name in ("ids", "owners", "offsets"):
                    with suppress(NodeExists):
                        await self._tree.create(f"{root}/{name}", acl=wanted)
                return wanted, False
            try:
                acl, stat = await self._tree.get_acl(root)
                wanted = self._wanted(acl, group, row)
                if set(wanted) == set(acl):
                    return wanted, False
                await self._tree.set_acl(root, wanted, stat.acl_version)
            except (BadVersion, NoNode):
                continue
            return wanted, True

    async def _give_below(self, root: str, acl: tuple[Acl, ...]) -> None:
        async for batch in below(self._tree, root):
            await gather(self._replace(path, acl) for path in batch if path != root)

    async def _replace(self, path: str, wanted: tuple[Acl, ...]) -> None:
        """Give a node of a group this list. Entries of members and of the coordinator are readable by all."""
        if paths.is_told_to_all(path):
            wanted = (*wanted, Acl(Permission.READ, *ANYONE))
        while True:
            try:
                acl, stat = await self._tree.get_acl(path)
                if set(acl) != set(wanted):
                    await self._tree.set_acl(path, wanted, stat.acl_version)
            except BadVersion:
                continue
            except NoNode:
                return
            except (NoAuth, InvalidAcl):
                await self._make_anew(path, wanted)
            return

    async def _make_anew(self, path: str, wanted: tuple[Acl, ...]) -> None:
        """Replace a node whose maker has left brokers out of its list, if its content can be read."""
        try:
            data, stat = await self._tree.get(path)
            if stat.ephemeral_owner:
                await self._tree.delete(path, stat.version)
            else:
                await self._tree.multi([Delete(path, stat.version), Create(path, data, wanted)])
        except NoNode:
            return
        except CoordinationError as error:
            self._log.error(
                "{path} belongs to a client that keeps brokers out, and stays so: {error}", path=path, error=str(error)
            )

    # Users that lost their rights

    async def _sweep_while_stale(self) -> None:
        try:
            while self._stale and self.closed:
                await sleep(self._clock, _GATHER_SECONDS)
                self._stale = False
                try:
                    await self._sweep()
                except CoordinationError as error:
                    self._stale = True
                    self._log.warn("the access lists of groups cannot be changed yet: {error}", error=str(error))
                    await sleep(self._clock, _AGAIN_SECONDS)
        finally:
            self._sweeping = False

    async def _sweep(self) -> None:
        try:
            await self._close_parent()
            groups = await self._tree.get_children(paths.CONSUMERS)
        except NoAuth as error:
            self._log.error("groups cannot be protected: {error}", error=str(error))
            return
        for group in groups:
            try:
                await self._sweep_group(group)
            except (NoAuth, InvalidAcl, ValueError) as error:
                self._log.error("group {group} cannot be protected: {error}", group=group[:200], error=str(error))

    async def _sweep_group(self, group: str) -> None:
        root = paths.group(group)
        while True:
            try:
                acl, stat = await self._tree.get_acl(root)
                if acl == OPEN_ACL:
                    return  # of before: the first of its users to prepare it, or `logd tree protect`, closes it
                wanted = self._wanted(acl, group, None)
                if set(wanted) == set(acl):
                    return
                await self._tree.set_acl(root, wanted, stat.acl_version)
            except BadVersion:
                continue
            except NoNode:
                return
            await self._give_below(root, wanted)
            return
