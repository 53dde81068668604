"""The questions of a replica to the manager of all replicas, and its role while no leader is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from logd.broker.replication.leader import LeaderRole
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState
from logd.errors import NotLeader, WireError
from logd.interfaces import IFlushListener, IThreads
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore

if TYPE_CHECKING:
    from logd.broker.replication.replica_fetcher import ReplicaFetcher


class ReplicaOwner(Protocol):
    """The part of the ReplicaManager that a replica needs."""

    @property
    def store(self) -> LogStore: ...

    @property
    def threads(self) -> IThreads: ...

    @property
    def clock(self) -> Any: ...

    @property
    def on_role(self) -> Callable[[PartitionLog], None]: ...

    def known(self, topic: str, partition: int) -> tuple[KnownState | None, tuple[int, ...]]:
        """Return the state of a partition and its replicas."""
        ...

    def live(self) -> Mapping[int, str]:
        """Return the instance of each live broker, as last seen."""
        ...

    def fetcher(self, leader: int) -> ReplicaFetcher:
        """Return the fetcher of what a broker leads."""
        ...

    def lead(self, log: PartitionLog, known: KnownState, replicas: tuple[int, ...], offline: Any) -> LeaderRole:
        """Return a new role for a log that leads."""
        ...

    def begun(self, log: PartitionLog) -> None:
        """Note that a log leads now: followers may be waiting for that."""
        ...

    def is_compared(self, topic: str, uuid: str) -> bool:
        """Return whether the logs here of the topic with this uuid were compared with their stored ends."""
        ...

    def is_lost(self, topic: str, partition: int) -> bool:
        """Return whether the log here lacks what its stored end in the tree vouches for."""
        ...

    async def relinquish(self, topic: str, partition: int) -> None:
        """Have the tree vouch no more for the log here if it is lost. Raises CoordinationError."""
        ...

    async def lower_stored_end(self, topic: str, partition: int, position: int) -> None:
        """Have the tree vouch for the log here up to ``position`` at most. Raises CoordinationError."""
        ...

    async def give_way(
        self,
        role: LeaderRole,
        seconds: float,
        able: Collection[int] | None,
        changed: Callable[[PartitionState, int], PartitionState] = ...,
    ) -> bool:
        """See ReplicaManager."""
        ...

    def change_state(
        self, topic: str, partition: int, known: KnownState, state: PartitionState
    ) -> Coroutine[Any, Any, KnownState]:
        """See PartitionStates.change."""
        ...


class IdleRole:
    """The role of a log while no leader is known."""

    def __init__(self, log: PartitionLog, me: int) -> None:
        self._refusal = NotLeader(
            f"it is not known to broker {me} which broker leads {log.topic}-{log.partition}: try again soon"
        )

    @property
    def refusal(self) -> WireError | None:
        """See ReplicaRole."""
        return self._refusal

    def check_produce(self, acks: int) -> None:
        """See ReplicaRole."""

    def wait_copies(self, copies: int, position: int, listener: IFlushListener) -> None:
        """See ReplicaRole."""
        listener.failed(self._refusal)

    def check_latest(self) -> None:
        """See ReplicaRole."""

    def appended(self) -> None:
        """See ReplicaRole."""

    def flushed(self) -> None:
        """See ReplicaRole."""

    def refused_full(self) -> None:
        """See ReplicaRole."""

    def went_offline(self) -> None:
        """See ReplicaRole."""
