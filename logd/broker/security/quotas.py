"""The quotas of this broker's users: what their connections share, and what they may create.

A quota holds for a user at one broker, over all its connections; topics and partitions are counted over the cluster.
Connections whose user has no quota are not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.broker.security.page_quota import PageQuota
from logd.broker.security.requester import Requester
from logd.broker.topics.directory import TopicDirectory
from logd.errors import QuotaExceeded
from logd.interfaces import Clock
from logd.net.limits.traffic_quotas import ByteQuota, ConnectionMeter, RequestQuota
from logd.net.server import Connection
from logd.net.session import PauseReason
from logd.security.principals import BROKER, EVERYONE
from logd.security.quotas import NO_QUOTA, Quota, quota_of

#: Users without connections whose debts are remembered, so that a new connection begins where the last one ended.
MOST_DEPARTED = 1000

T = TypeVar("T")


class QuotaSession(Protocol):
    """The members of a session that are used here."""

    connection: Connection
    requester: Requester


@define(eq=False)
class QuotaUsage:
    """The present use of this broker by one user, or one address."""

    clock: Clock
    quota: Quota = NO_QUOTA
    incoming: ByteQuota = field(init=False)
    outgoing: ByteQuota = field(init=False)
    requests: RequestQuota = field(init=False)
    sessions: dict[QuotaSession, None] = field(factory=dict, init=False)
    #: Requests for pages that are being answered.
    pages: dict[PageQuota, None] = field(factory=dict, init=False)
    #: Connections and topics that were refused.
    refused: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.incoming = ByteQuota(self.clock, PauseReason.QUOTA_IN)
        self.outgoing = ByteQuota(self.clock, PauseReason.QUOTA_OUT)
        self.requests = RequestQuota(self.clock)
        self.apply(self.quota)

    def apply(self, quota: Quota) -> None:
        """Keep another quota from now on."""
        self.quota = quota
        self.incoming.change_rate(quota.bytes_in)
        self.outgoing.change_rate(quota.bytes_out)
        self.requests.change_most(quota.requests)

    def add_counts(self, other: QuotaUsage) -> None:
        """Add what another user has used since it was first measured."""
        self.refused += other.refused
        self.incoming.add_counts(other.incoming)
        self.outgoing.add_counts(other.outgoing)
        self.requests.held.add_counts(other.requests.held)

    @property
    def at_rest(self) -> bool:
        """True if nothing would be lost by forgetting this but the counts."""
        return not self.sessions and not self.pages and self.incoming.at_rest and self.outgoing.at_rest


@define(eq=False)
class Quotas:
    """The quotas in force at one broker, and what is used of them."""

    _clock: Clock
    _topics: TopicDirectory
    #: Requests of one address under way, None for no limit: the setting requests.address.max.
    _of_address: int | None = None
    #: By user, as in the tree.
    entries: Mapping[str, Quota] = field(factory=dict, init=False)
    #: By user, of those that have a quota and are connected, or in debt.
    usages: dict[str, QuotaUsage] = field(factory=dict, init=False)
    _addresses: dict[str, QuotaUsage] = field(factory=dict, init=False)
    #: The usages of each session that is measured: that of its user, that of its address.
    _measured: dict[QuotaSession, tuple[QuotaUsage | None, QuotaUsage | None]] = field(factory=dict, init=False)
    #: Topics that are being created, with their users and numbers of partitions.
    _creating: dict[str, tuple[str, int]] = field(factory=dict, init=False)
    #: The use by users that are forgotten, so that the counts of all others never fall.
    _departed: QuotaUsage = field(init=False)
    _stopped: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._departed = QuotaUsage(self._clock)

    def take(self, entries: Mapping[str, Quota], sessions: Iterable[QuotaSession]) -> None:
        """Take the quotas that the tree has now; they hold for all open sessions at once."""
        if entries == self.entries:
            return
        self.entries = dict(entries)
        for principal, usage in tuple(self.usages.items()):
            usage.apply(self._quota(principal))
        if not self._stopped:
            for session in tuple(sessions):
                self._measure(session)
        self._forget_departed()

    def opened(self, session: QuotaSession) -> None:
        """Measure a new session, if its user or its address has a quota."""
        if self.entries or self._of_address is not None:
            self._measure(session)

    def authenticated(self, session: QuotaSession) -> None:
        """Measure a session for the user that it has proved to be.

        Call this after the session's requester is changed, and before success is answered. Raises QuotaExceeded if the
        user has as many connections as it may have: answer with that, and close.
        """
        if not self.entries:
            return
        principal = session.requester.principal
        most = self._quota(principal).connections
        if most is not None:
            usage = self._usage(principal)
            others = len(usage.sessions) - (session in usage.sessions)
            if others >= most:
                usage.refused += 1
                raise QuotaExceeded(
                    f"{principal} has {others} connections with this broker, as many as its quota allows "
                    f"(connections = {most}): close some, or ask an administrator for: "
                    f"logd quotas set {principal} connections={most * 2}"
                )
        self._measure(session)
        meter = session.connection.meter
        if meter is not None:
            meter.hold()

    def answer_bytes(self, requester: Requester, most: int) -> int:
        """Return how many bytes an answer may have, behind its first part: a second's worth of the user's quota."""
        rate = self._quota(requester.principal).bytes_out if self.entries else None
        return most if rate is None else min(most, rate)

    def closed(self, session: QuotaSession) -> None:
        """Forget a session."""
        measured = self._measured.pop(session, None)
        if measured is None:
            return
        session.connection.set_meter(None)
        for usage in measured:
            if usage is not None:
                usage.sessions.pop(session, None)
        address = session.requester.address
        if measured[1] is not None:
            self._forget_address(address, measured[1])
        if len(self.usages) > MOST_DEPARTED:
            self._forget_departed()

    def labelled(self, most: int) -> dict[str, list[QuotaUsage]]:
        """Return what users use, those with a quota of their own by name, at most ``most``; the others under ``*``."""
        named = set(sorted(self.entries.keys() - {EVERYONE})[:most])
        found: dict[str, list[QuotaUsage]] = {name: [] for name in (*named, EVERYONE)}
        for principal, usage in self.usages.items():
            found[principal if principal in named else EVERYONE].append(usage)
        found[EVERYONE].append(self._departed)
        return found

    def stop(self) -> None:
        """Hold nothing any more: the broker is stopping."""
        self._stopped = True
        for session in tuple(self._measured):
            self.closed(session)
        for usage in (*self.usages.values(), *self._addresses.values()):
            for page in tuple(usage.pages):
                page.leave()

    def page(self, requester: Requester) -> PageQuota | None:
        """Measure a request for a page until its ``leave`` is called; return None if nothing limits it."""
        principal = requester.principal
        limited = bool(self.entries) and self._quota(principal) != NO_QUOTA
        user = self._usage(principal) if limited else None
        address = self._address_usage(requester.address)
        shared = [usage for usage in (user, address) if usage is not None]
        if not shared or self._stopped:
            return None

        def left(page: PageQuota) -> None:
            for usage in shared:
                usage.pages.pop(page, None)
            if address is not None:
                self._forget_address(requester.address, address)

        requests = tuple([usage.requests for usage in shared if usage.quota.requests is not None])
        page = PageQuota(shared[0].incoming, shared[0].outgoing, requests, left)
        for usage in shared:
            usage.pages[page] = None
        return page

    # Topics

    def check_create(self, requester: Requester, topic: str, partitions: int) -> None:
        """Raise QuotaExceeded if the user may not create a topic of that many partitions."""
        quota = self._quota(requester.principal) if self.entries else NO_QUOTA
        if quota.topics is None and quota.partitions is None:
            return
        topics, used = self._created_by(requester.principal, topic)
        self._check(requester.principal, quota, "topics", quota.topics, topics, 1)
        self._check(requester.principal, quota, "partitions", quota.partitions, used, partitions)

    def check_grow(self, requester: Requester, topic: str, partitions: int) -> None:
        """Raise QuotaExceeded if the user may not give a topic that many partitions, whoever has created it."""
        quota = self._quota(requester.principal) if self.entries else NO_QUOTA
        if quota.partitions is not None:
            _, used = self._created_by(requester.principal, topic)
            self._check(requester.principal, quota, "partitions", quota.partitions, used, partitions)

    def creator(self, requester: Requester) -> str:
        """Return the user for whose quota a new topic counts; empty for the anonymous where there are no quotas."""
        return requester.principal if requester.authenticated or self.entries else ""

    def creating(self, requester: Requester, topic: str, partitions: int, creation: Deferred[T]) -> Deferred[T]:
        """Count a topic from now on until its creation has ended and the topic is known."""
        if not self.entries or topic in self._creating:
            return creation
        self._creating[topic] = requester.principal, partitions

        def ended(result: Any) -> Any:
            self._creating.pop(topic, None)
            return result

        return creation.addBoth(ended)

    def _created_by(self, principal: str, besides: str) -> tuple[int, int]:
        """Return the numbers of topics and of their partitions that a user has created, one topic not counted."""
        counts = {name: partitions for name, (user, partitions) in self._creating.items() if user == principal}
        counts.update(self._topics.created_by(principal))
        counts.pop(besides, None)
        return len(counts), sum(counts.values())

    def _check(self, principal: str, quota: Quota, what: str, most: int | None, used: int, more: int) -> None:
        if most is not None and used + more > most:
            usage = self.usages.get(principal)
            if usage is not None:
                usage.refused += 1
            raise QuotaExceeded(
                f"{principal} has {used} of the {most} {what} that its quota allows, and asks for {more} more: delete "
                f"some, or ask an administrator for: logd quotas set {principal} {what}={used + more}"
            )

    # Internals

    def _quota(self, principal: str) -> Quota:
        return NO_QUOTA if principal == BROKER else quota_of(principal, self.entries)

    def _usage(self, principal: str) -> QuotaUsage:
        usage = self.usages.get(principal)
        if usage is None:
            usage = self.usages[principal] = QuotaUsage(self._clock, self._quota(principal))
        return usage

    def _address_usage(self, address: str) -> QuotaUsage | None:
        if self._of_address is None or not address:
            return None
        usage = self._addresses.get(address)
        if usage is None:
            usage = self._addresses[address] = QuotaUsage(self._clock, Quota(requests=self._of_address))
        return usage

    def _forget_address(self, address: str, usage: QuotaUsage) -> None:
        if not usage.sessions and not usage.pages:
            self._addresses.pop(address, None)

    def _measure(self, session: QuotaSession) -> None:
        """Have a session share what its user and its address may use."""
        if self._stopped:
            return
        principal = session.requester.principal
        user = self._usage(principal) if self._quota(principal) != NO_QUOTA else None
        address = self._address_usage(session.requester.address)
        measured = self._measured.get(session, (None, None))
        shared = [usage for usage in (user, address) if usage is not None]
        requests = tuple([usage.requests for usage in shared if usage.quota.requests is not None])
        meter = session.connection.meter
        if measured == (user, address) and requests == (() if meter is None else meter.requests):
            return
        for usage in measured:
            if usage is not None:
                usage.sessions.pop(session, None)
        if user is None and address is None:
            del self._measured[session]
            session.connection.set_meter(None)
            return
        self._measured[session] = user, address
        for usage in shared:
            usage.sessions[session] = None
        of_bytes = shared[0]
        session.connection.set_meter(
            ConnectionMeter(session.connection, of_bytes.incoming, of_bytes.outgoing, requests)
        )

    def _forget_departed(self) -> None:
        """Forget users that are not connected: those without a quota, and those without debts."""
        for principal, usage in tuple(self.usages.items()):
            if usage.at_rest and (usage.quota == NO_QUOTA or principal not in self.entries):
                self._departed.add_counts(usage)
                del self.usages[principal]
