"""Protects a tree that exists already, or opens it again: reads and replaces the access lists of logd's nodes.

Each node's own list says whether it is done, so a walk that was interrupted is simply begun again. Parents come before
their children, and what is secret comes first. Nothing is kept of a node but its place in the queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from attrs import define, field, frozen

from logd.coord import paths
from logd.coord.access_lists import ANYONE, Audience, BrokerAccess, Protection, audience_of
from logd.coord.errors import BadVersion, NoAuth, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import OPEN_ACL, Acl, Permission, Stat
from logd.deferreds.gathering import gather

#: Nodes asked about at a time.
_TOGETHER = 64
#: The places of a tree as people see them, secrets first.
PLACES = (*paths.PRIVATE, *paths.PROTECTED, paths.CONSUMERS, "/")
#: Nodes directly below the root that are part of every tree, or of logd.
_OURS = frozenset(("zookeeper", *(each.split("/")[1] for each in PLACES)))


@frozen
class ProtectedNode:
    """A node's state; None as its access list: it may not be read with these credentials."""

    path: str
    kind: Audience
    state: Protection
    acl: tuple[Acl, ...] | None
    stat: Stat | None


@define
class PlaceSummary:
    """The numbers of nodes at one place of the tree and below it, by their state."""

    path: str
    kind: Audience
    counts: dict[Protection, int] = field(factory=lambda: dict.fromkeys(Protection, 0))

    @property
    def nodes(self) -> int:
        """The number of all nodes."""
        return sum(self.counts.values())

    @property
    def worst(self) -> Protection:
        """The state of the node that is protected least."""
        for state in (Protection.OPEN, Protection.READABLE, Protection.FOREIGN):
            if self.counts[state]:
                return state
        return Protection.PROTECTED


#: The nodes that a new tree begins with, parents first.
FOUNDED = (
    *("/brokers", paths.BROKER_IDS, paths.BROKER_TOPICS, paths.DELETED_TOPICS, paths.STORED, "/producers", "/schemas"),
    *("/security", paths.USERS, paths.ACCESS_RULES, paths.QUOTAS),
)
#: As OPEN_ACL, which stands for the client's own default.
EVERYBODY = (Acl(Permission.ALL, *ANYONE), Acl(Permission.READ, *ANYONE))
#: Returns the list that a node is to have, None if it stays as it is.
Replacement = Callable[[ProtectedNode], tuple[Acl, ...] | None]


async def below(tree: ICoordination, root: str, leave_out: Sequence[str] = ()) -> AsyncIterator[list[str]]:
    """Yield ``root`` and the paths below it, some at a time, parents first; of "/" alone nothing is below."""

    async def children(path: str) -> list[str]:
        try:
            return [f"{path}/{name}" for name in await tree.get_children(path)]
        except (NoNode, NoAuth):
            return []

    queue = [root]
    while queue:
        batch, queue = queue[:_TOGETHER], queue[_TOGETHER:]
        yield batch
        if root != "/":
            found = await gather(children(path) for path in batch)
            queue += [each for some in found for each in some if each not in leave_out]


@frozen
class TreeProtection:
    """Looks at and changes the access lists of one tree, with the credentials of its client."""

    tree: ICoordination
    #: True if groups are closed; they are left as they are if the cluster has no users.
    with_groups: bool

    @property
    def access(self) -> BrokerAccess:
        """The access lists with which this client protects nodes."""
        return BrokerAccess(self.tree.access_lists.own)

    async def others_at_root(self) -> list[str]:
        """Return the names below the root that are not logd's: nodes of other applications."""
        return [name for name in await self.tree.get_children("/") if name not in _OURS]

    async def walk(self) -> AsyncIterator[tuple[str, list[ProtectedNode]]]:
        """Yield all nodes, some at a time, with the place of PLACES that they belong to; parents come first."""
        for place in PLACES:
            if audience_of(place) is Audience.GROUP and not self.with_groups:
                continue
            # Secrets have a place of their own.
            leave_out = () if place in paths.PRIVATE else paths.PRIVATE
            async for batch in below(self.tree, place, leave_out):
                seen = await gather(self._seen(path) for path in batch)
                yield place, [node for node in seen if node is not None]

    async def _seen(self, path: str) -> ProtectedNode | None:
        kind = audience_of(path) or Audience.BROKERS
        try:
            acl, stat = await self.tree.get_acl(path)
        except NoNode:
            return None
        except NoAuth:
            return ProtectedNode(
                path, kind, Protection.FOREIGN if self.access.own else Protection.PROTECTED, None, None
            )
        return ProtectedNode(path, kind, self._state(kind, acl), acl, stat)

    def _state(self, kind: Audience, acl: tuple[Acl, ...]) -> Protection:
        state = self.access.state(kind, acl)
        # Without credentials the digests in lists are not shown, and nothing belongs to this client.
        return Protection.PROTECTED if state is Protection.FOREIGN and not self.access.own else state

    async def summary(self) -> list[PlaceSummary]:
        """Return a row for each place that exists."""
        rows: dict[str, PlaceSummary] = {}
        async for place, nodes in self.walk():
            for node in nodes:
                rows.setdefault(place, PlaceSummary(place, node.kind)).counts[node.state] += 1
        return [rows[place] for place in sorted(rows)]

    async def found(self, with_root: bool) -> list[str]:
        """Make the places of a new tree, so that no stranger makes them first; return those that are open.

        With ``with_root``, the root of a tree is closed too, if it has no nodes of other applications.
        """
        for path in FOUNDED:
            with suppress(NodeExists):
                await self.tree.create(path)
        if with_root and not await self.others_at_root():
            with suppress(NodeExists):  # consumers may still make groups once the root is closed
                await self.tree.create(paths.CONSUMERS, acl=EVERYBODY)
            root = await self._seen("/")
            await self._replace_one(root, self.protecting_list, lambda path: None)
        seen = [await self._seen(path) for path in (*FOUNDED, paths.SECRET, paths.CLUSTER, "/")]
        return [node.path for node in seen if node is not None and node.state in (Protection.OPEN, Protection.READABLE)]

    async def protect(self, changed: Callable[[str], None], with_root: bool) -> int:
        """Protect every node that is not protected; return how many could not be. Raises CoordinationError."""
        for path in FOUNDED:
            with suppress(NodeExists, NoAuth):
                await self.tree.create(path)
        if with_root and not self.with_groups:
            with suppress(NodeExists):  # consumers may still make groups once the root is closed
                await self.tree.create(paths.CONSUMERS, acl=EVERYBODY)
        return await self._replace(self.protecting_list, changed, with_root)

    async def unprotect(self, changed: Callable[[str], None]) -> int:
        """Open every node to everybody; return how many could not be. Raises CoordinationError."""
        return await self._replace(opening_list, changed, True)

    def protecting_list(self, node: ProtectedNode) -> tuple[Acl, ...] | None:
        """Return the list that protects a node, None if its own does, or if it is made anew with its maker's list."""
        if node.state is Protection.PROTECTED or node.acl is None or _ends_soon(node):
            return None
        return self.access.protected(node.kind, node.acl)

    async def _replace(self, wanted: Replacement, changed: Callable[[str], None], with_root: bool) -> int:
        failed = 0
        async for place, nodes in self.walk():
            if place == "/" and not with_root:
                continue
            failed += (await gather(self._replace_one(node, wanted, changed) for node in nodes)).count(False)
        return failed

    async def _replace_one(
        self, node: ProtectedNode | None, wanted: Replacement, changed: Callable[[str], None]
    ) -> bool:
        while node is not None:
            if node.acl is None or node.stat is None:
                return False
            acl = wanted(node)
            if acl is None:
                return True
            try:
                await self.tree.set_acl(node.path, acl, node.stat.acl_version)
            except BadVersion:
                node = await self._seen(node.path)
            except NoNode:
                return True
            except NoAuth:
                return False
            else:
                changed(node.path)
                return True
        return True

    async def strangers(self) -> list[str]:
        """Return the ids of live brokers whose own nodes do not belong to these credentials.

        They run without them, and could not write to the tree once it is protected.
        """
        found = []
        try:
            ids = await self.tree.get_children(paths.BROKER_IDS)
        except NoNode:
            return []
        for each in ids:
            node = await self._seen(f"{paths.BROKER_IDS}/{each}")
            if node is not None and node.state in (Protection.OPEN, Protection.FOREIGN):
                found.append(each)
        return found


def opening_list(node: ProtectedNode) -> tuple[Acl, ...] | None:
    """Return the list that opens a node, None if it is open, or if it is made anew with its maker's list."""
    return None if _ends_soon(node) or node.acl is None or set(node.acl) == set(OPEN_ACL) else OPEN_ACL


def _ends_soon(node: ProtectedNode) -> bool:
    """Return whether a node ends with its session and is made anew with the access list of its maker: a broker's."""
    return node.stat is not None and node.stat.ephemeral_owner != 0 and node.kind is Audience.BROKERS
