"""One broker's claim of a group, by which it alone coordinates the group's Kafka clients.

The claim is the ephemeral node ``/consumers/<group>/coordinator`` with the broker's id. It exists while the group has
Kafka clients as members, and no longer: native consumers and committing clients that are no members look at it. The
transaction that creates it also writes ``/consumers/<group>/generation``, so each claim leaves another version of that
node. A write that demands both, the claim and the version, is therefore one of the present coordinator: a broker whose
session has ended cannot make it, even when it does not know that yet.

A broker creates its claim and then reads the list of native consumers; a native consumer registers and then looks for
the claim. At least one of two that do so at the same time sees the other one, and withdraws.
"""

from __future__ import annotations

from contextlib import suppress

from twisted.logger import Logger

from logd.checkedjson import INT32_MAX, decimal
from logd.coord import paths
from logd.coord.ephemeral import ATTEMPTS, release_ephemeral
from logd.coord.errors import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    NodeExists,
    NoNode,
    OperationTimeout,
    SessionExpired,
)
from logd.coord.interfaces import ICoordination
from logd.coord.kafka_coordinator import decode_coordinator
from logd.coord.records import Check, Create, Operation, SetData, Stat
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock

#: Seconds between two attempts where the outcome has to be known: while too many calls of the tree wait, each further
#: one fails at once, and in one turn of the reactor none of them comes to an end.
_AGAIN_SECONDS = 0.1


class CoordinatedElsewhere(CoordinationError):
    """Another broker coordinates the group; ``broker`` is its id, -1 if its claim cannot be read."""

    def __init__(self, path: str, broker: int) -> None:
        super().__init__(f"{path}: broker {broker} coordinates this group", path)
        self.broker = broker


class NativeMembers(CoordinationError):
    """The group has live native consumers, which share out its partitions by themselves."""


class ClaimLost(CoordinationError):
    """The group is no longer coordinated by this broker."""


async def has_native_members(coordination: ICoordination, group: str) -> bool:
    """Return whether the group has live native consumers. Raises CoordinationError."""
    try:
        return bool(await coordination.get_children(paths.group_consumers(group)))
    except NoNode:
        return False


class GroupClaim:
    """The claim of one group by one broker. Calls run one at a time, and fail with a CoordinationError."""

    _log = Logger()

    def __init__(self, coordination: ICoordination, group: str, broker_id: int, clock: Clock) -> None:
        """Raises ValueError for a group name that cannot be a node's name."""
        self._clock = clock
        self._coordination = coordination
        self._path = paths.group_coordinator(group)
        self._generation_path = paths.group_generation(group)
        self.group = group
        self._broker_id = broker_id
        #: The generation in the tree.
        self.generation = 0
        #: The version of that node since the claim.
        self._version = -1
        #: The session that the claim ends with.
        self._session = 0

    def guard(self) -> list[Operation]:
        """Return the checks that fail once the claim is over; for a transaction of this claim."""
        return [Check(self._path), Check(self._generation_path, self._version)]

    async def take(self) -> None:
        """Claim the group. Raises CoordinatedElsewhere and NativeMembers."""
        last: CoordinationError = ConnectionLoss(path=self._path)
        for _attempt in range(ATTEMPTS):
            if await has_native_members(self._coordination, self.group):
                raise self._natives()
            try:
                await self._try_to_take()
                break
            except (NodeExists, NoNode, BadVersion, ConnectionLoss) as error:
                last = error
            with suppress(NoNode, BadVersion, ConnectionLoss):
                await self._clear_away()
        else:
            raise last
        if await has_native_members(self._coordination, self.group):
            await self.release()
            raise self._natives()
        if self._coordination.session_id != self._session:
            raise SessionExpired(f"{self._path}: the session ended during the claim", self._path)

    async def write_generation(self, generation: int) -> None:
        """Write another generation, as the coordinator. Raises ClaimLost.

        After a lost connection it goes on until the outcome is known, or the session is over.
        """
        version, data = self._version, b"%d" % generation
        while self._coordination.session_id == self._session:
            try:
                await self._coordination.multi([Check(self._path), SetData(self._generation_path, data, version)])
                break
            except (NoNode, BadVersion) as error:
                if not await self._is_written(data, version + 1):
                    raise ClaimLost(f"{error.path}: another broker may coordinate this group now", error.path) from None
                break
            except (ConnectionLoss, OperationTimeout):
                await sleep(self._clock, _AGAIN_SECONDS)
        else:
            raise ClaimLost(f"{self._path}: the session ended, and with it the claim of this group", self._path)
        self.generation, self._version = generation, version + 1

    async def release(self) -> None:
        """End the claim."""
        await release_ephemeral(self._coordination, self._path)

    async def _is_written(self, data: bytes, version: int) -> bool:
        """Return whether an earlier attempt, whose answer was lost, has written the generation under this claim."""
        while True:
            try:
                found, stat = await self._coordination.get(self._generation_path)
                claim = await self._coordination.exists(self._path)
            except (ConnectionLoss, OperationTimeout):
                if self._coordination.session_id != self._session:
                    return False
                await sleep(self._clock, _AGAIN_SECONDS)
                continue
            except NoNode:
                return False
            ours = claim is not None and claim.ephemeral_owner == self._session
            return ours and (found, stat.version) == (data, version)

    async def _try_to_take(self) -> None:
        coordination = self._coordination
        try:
            data, stat = await coordination.get(self._generation_path)
        except NoNode:
            with suppress(NodeExists):
                await coordination.create(self._generation_path, b"0", makepath=True)
            data, stat = await coordination.get(self._generation_path)
        session = coordination.session_id
        claim = Create(self._path, b"%d" % self._broker_id, ephemeral=True)
        _, written = await coordination.multi([claim, SetData(self._generation_path, data, stat.version)])
        assert isinstance(written, Stat)
        self._session, self._version = session, written.version
        self.generation = self._read_generation(data)

    async def _clear_away(self) -> None:
        """Remove a claim of this broker that an earlier process, or a lost answer, has left."""
        coordination = self._coordination
        data, stat = await coordination.get(self._path)
        if stat.ephemeral_owner != coordination.session_id and decode_coordinator(data) != self._broker_id:
            raise CoordinatedElsewhere(self._path, decode_coordinator(data))
        await coordination.delete(self._path, stat.version)

    def _read_generation(self, data: bytes) -> int:
        try:
            return decimal(data.decode()) % INT32_MAX
        except ValueError as error:
            self._log.warn(
                "{path} holds no generation, so the group's generations begin at 0 again: {error}",
                path=self._generation_path,
                error=error,
            )
            return 0

    def _natives(self) -> NativeMembers:
        return NativeMembers(f"group {self.group!r} has live native consumers: stop them, or use another group")
