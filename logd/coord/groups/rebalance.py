"""One consumer's share of a group, and the rebalance that changes it.

A rebalance is the paper's Algorithm 1 (section 3.2) in this order: stop fetching and drop buffered messages; commit;
release the owned partitions; read the registries; compute; claim all or nothing; start. When the registries give the
same share as before, nothing is stopped, unless positions were moved from outside (see group_changes.py), or streams
were replaced.

The cost for a consumer with k partitions, beside the reads of the view: k reads of offsets, all sent at once, and
three transactions for each hundred partitions (commits, releases, claims with their fences). So a group of C consumers
over P partitions does about 5 C + P operations each time that a consumer joins or leaves, P of them small reads;
nothing grows with C times P.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from twisted.logger import Logger

from logd.coord.errors import ConnectionLoss, NoNode, OperationTimeout, SessionExpired
from logd.coord.groups.claims import Claims
from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.member_registration import Registration
from logd.coord.groups.records import EventCounter
from logd.coord.groups.registry_view import GroupView, Registries
from logd.coord.groups.tenure import Tenure
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.registries.consumers import ConsumerRegistry, Subscription
from logd.coord.registries.offsets import OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from logd.deferreds.sleeping import InterruptibleSleep
from logd.errors import LogdError
from logd.interfaces import Clock
from logd.topic import TopicPartition

#: Seconds between the attempts to hand over while the connection is lost: a call may be lost at once.
HAND_OVER_AGAIN = 0.1


@frozen
class ShareCallbacks:
    """The events of a share, told to the membership."""

    #: Something that the share was computed from may have changed.
    changed: Callable[[], None]
    #: A rebalance is about to stop the delivery.
    rebalancing: Callable[[], None]
    #: The tree was silent for so long that others may soon own the partitions.
    out_of_touch: Callable[[], None]


class GroupShare:
    """The partitions that one consumer of a group owns. ``rebalance`` and ``hand_over`` run one at a time."""

    _log = Logger()

    def __init__(
        self,
        coordination: ICoordination,
        clock: Clock,
        group: str,
        consumer: str,
        reader: IGroupReader,
        counter: EventCounter,
        callbacks: ShareCallbacks,
    ) -> None:
        """``consumer``: this member's id, unique among all members ever. Raises ValueError for a bad group name."""
        self.group = group
        #: The topics subscribed to, of which the next rebalance computes the share.
        self.subscription = Subscription()
        self._coordination = coordination
        self._clock = clock
        self._counter = counter
        self._callbacks = callbacks
        registry = ConsumerRegistry(coordination, group)
        self._registration = Registration(registry, consumer)
        owners, offsets = OwnerRegistry(coordination, group), OffsetRegistry(coordination, group)
        self._claims = Claims(coordination, owners, offsets, callbacks.changed)
        self._view = GroupView(coordination, registry, callbacks.changed)
        self._tenure = Tenure(coordination, clock, reader, callbacks.out_of_touch)
        #: The session of the registration and the claims.
        self._session = 0
        #: The subscription whose share was delivered last. Another object has other streams, though it may be equal.
        self._delivered: Subscription | None = None
        #: The session of the share that was delivered last; 0 before the first.
        self._delivered_in = 0

    @property
    def consumer(self) -> str:
        """The id of this consumer's registration, present or future."""
        return self._registration.name

    @property
    def streams(self) -> dict[TopicPartition, str]:
        """The partitions owned, each with its stream's id."""
        return self._claims.streams

    @property
    def delivering(self) -> bool:
        """Return whether the partitions are being delivered."""
        return self._tenure.delivering

    @property
    def in_touch(self) -> bool:
        """Return whether the session is certainly alive."""
        return self._tenure.in_touch

    async def rebalance(self) -> None:
        """Change from the share that is held to the one that the registries give now.

        Raises Conflict and other CoordinationErrors. ``delivering`` says whether the share is delivered afterwards.
        """
        coordination = self._coordination
        session = coordination.session_id
        tenure = self._tenure
        if session != self._session:
            tenure.stop()
            self._registration.forget()
            tenure.end()  # the claims know their session themselves
            self._session = session
        served = self.subscription is self._delivered and self.subscription == self._registration.subscription
        if tenure.delivering and served:
            registries = await self._look(self.subscription)
            remade = tenure.remade(registries, self._claims.streams)
            unmoved = not remade and not tenure.is_moved(registries)
            if unmoved and registries.share(self.consumer) == self._claims.share:
                return
            for where in remade:  # a position in the former topic must not be committed for this one
                self._log.warn("group {group}: {where} was deleted and created again", group=self.group, where=where)
                tenure.lost(where)
        self._callbacks.rebalancing()
        await tenure.stop()
        await self._store_handled()
        tenure.end()
        await self._claims.release()
        subscription = self.subscription
        await self._registration.renew(subscription)
        registries = await self._look(subscription)
        positions = await self._claims.claim(registries.share(self.consumer))
        if coordination.session_id != session or not tenure.in_touch:
            raise SessionExpired(f"group {self.group!r}: the session changed during the rebalance")
        self._delivered, self._delivered_in = subscription, session
        tenure.begin(self._claims.streams, positions, registries)  # as they were before the positions were read

    async def _look(self, subscription: Subscription) -> Registries:
        """Read the registries, with this consumer's own entry among them: an entry that was removed is created again.

        The owned partitions stay owned meanwhile, so nothing has to stop.
        """
        registries = await self._view.read(subscription)
        if self.consumer not in registries.consumers:
            if self._coordination.session_id != self._session:
                raise SessionExpired(f"group {self.group!r}: the session changed during the rebalance")
            self._log.warn(
                "group {group}: the entry of live consumer {consumer} was removed from outside: registering again",
                group=self.group,
                consumer=self.consumer,
            )
            self._registration.forget()
            await self._registration.renew(subscription)
            registries = await self._view.read(subscription)
            if self.consumer not in registries.consumers:
                raise NoNode(f"group {self.group!r}: the entry of {self.consumer} was removed again at once")
        return registries

    async def commit(self) -> list[TopicPartition]:
        """Commit the handled positions; return the partitions that turned out to belong to others.

        Those are given up, and the rest is committed. Raises CoordinationError; SessionExpired if the session of the
        share that was delivered last is over, since what was handled in it cannot be stored any more.
        """
        session = self._delivered_in
        lost = await self._store_handled()
        if session and session != self._coordination.session_id:
            raise SessionExpired(
                f"group {self.group!r}: the session has ended: messages handled since the last commit come again"
            )
        return lost

    async def _store_handled(self) -> list[TopicPartition]:
        return self._give_up(await self._claims.commit(self._tenure.handled))

    def stop(self) -> None:
        """Stop the delivery; the positions handled before may still be committed."""
        self._tenure.stop()

    def session_ended(self) -> None:
        """Stop the delivery and forget the claims at once: nothing may be committed for them in the next session."""
        self._tenure.stop()
        self._tenure.end()
        self._claims.forget()

    def refused(self, error: LogdError) -> None:
        """Stop the delivery, and tell the reader that this consumer cannot be a member now: it waits for a start."""
        if self._tenure.delivering:
            self._tenure.stop()
        self._tenure.refused(error)

    def _give_up(self, lost: list[TopicPartition]) -> list[TopicPartition]:
        """Give up the partitions that a commit has shown to belong to others."""
        for where in lost:
            self._counter.add(fenced=1)
            self._log.warn("group {group}: {where} belongs to another consumer now", group=self.group, where=where)
            self._tenure.lost(where)
        if lost:
            self._callbacks.changed()
        return lost

    async def hand_over(self) -> None:
        """Stop, commit, release and deregister, while the session lives. Raises CoordinationError."""
        pause = InterruptibleSleep(self._clock)
        unsubscribe = self._coordination.subscribe(lambda _: pause.wake())
        try:
            await self._tenure.stop()
            while self._in_session():
                try:
                    await self._store_handled()
                    await self._claims.release()
                    await self._registration.end()
                    return
                except (ConnectionLoss, OperationTimeout):  # a server that comes back may know the session still
                    await pause.sleep(HAND_OVER_AGAIN)
        finally:
            unsubscribe()
            self._view.close()

    def _in_session(self) -> bool:
        """Return whether the claims may still exist. While suspended, calls wait: the session may outlast this."""
        coordination = self._coordination
        alive = coordination.state in (SessionState.CONNECTED, SessionState.SUSPENDED)
        return alive and coordination.session_id == self._session
