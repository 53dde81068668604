"""Answers PrepareGroup: gives a group's nodes in the coordination tree to a user that may read in the group."""

from __future__ import annotations

from attrs import define
from twisted.internet.defer import Deferred, succeed

from logd.broker.security.group_access import GroupAccess
from logd.broker.security.rights import Rights
from logd.errors import WireError
from logd.protocol.requests.groups.prepare_group import GroupAclRow, PrepareGroup, PrepareGroupResponse
from logd.security.access_rules import Operation


@define
class PrepareGroupRequests:
    """The requests of one connection."""

    _access: GroupAccess
    _rights: Rights

    def prepare(self, request: PrepareGroup) -> Deferred[PrepareGroupResponse]:
        """Check the rules; then make the group's nodes for the user."""
        try:
            self._rights.check_group(Operation.READ, request.group)
        except WireError as error:
            return succeed(PrepareGroupResponse(error.code, text=str(error)))
        return Deferred.fromCoroutine(self._prepare(request))

    async def _prepare(self, request: PrepareGroup) -> PrepareGroupResponse:
        try:
            acl = await self._access.prepare(self._rights.requester, request.group, request.again)
        except WireError as error:
            return PrepareGroupResponse(error.code, text=str(error))
        return PrepareGroupResponse(
            0, tuple(GroupAclRow(int(row.permissions), row.scheme, row.identity) for row in acl)
        )
