"""Prepares a group for its member: authenticates in the tree, and has a broker give the group's nodes to the user."""

from __future__ import annotations

from attrs import define

from logd.client.cluster.cluster import Cluster
from logd.coord.interfaces import ICoordination
from logd.coord.records import OPEN_ACL, Acl
from logd.errors import ConfigurationError, UnsupportedVersion, error_for_code
from logd.protocol.requests.groups.prepare_group import PrepareGroup, PrepareGroupResponse


@define(eq=False)
class GroupPreparation:
    """The preparation of one group by one consumer."""

    _cluster: Cluster
    _tree: ICoordination
    _group: str

    async def prepare(self, again: bool) -> None:
        """Have the group's nodes given to the user of this client; see GroupMembership.

        Without a user a broker is asked only once the tree has refused something. Raises a CoordinationError,
        BrokerUnavailable, the WireError that a broker answers, and ConfigurationError for a password file.
        """
        find = self._cluster.credentials
        credentials = None if find is None else find()
        if credentials is None and not again:
            return
        if credentials is not None:
            if ":" in credentials.user:
                raise ConfigurationError(f"the user {credentials.user!r} cannot read in a group: its name has a colon")
            await self._tree.authenticate(credentials.user, credentials.password)
        try:
            response: PrepareGroupResponse = await self._cluster.ask_any(PrepareGroup(self._group, again))
        except UnsupportedVersion:  # a broker of an earlier release: groups are open
            return
        if response.error:
            raise error_for_code(response.error, response.text)
        lists = self._tree.access_lists
        if response.rows:
            lists.groups = tuple(Acl(row.permissions, row.scheme, row.identity) for row in response.rows)
        else:
            lists.groups = None if lists.own else OPEN_ACL
