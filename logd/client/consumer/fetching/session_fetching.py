"""Fetching with sessions: what is asked of each broker, for consumers of many partitions.

A broker of an earlier release, and one that keeps no further session, refuses the first request. Its partitions are
then fetched without a session while that connection lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import BrokerLink, ClientConnection
from logd.client.consumer.fetching.client_session import Answered, ClientFetchSession
from logd.client.consumer.fetching.fetch_memory import FetchMemory
from logd.client.consumer.fetching.fetch_plan import MOST_REQUESTS, FetchEntry, FetchPlan
from logd.client.consumer.fetching.fetch_recovery import FetchRecovery
from logd.client.consumer.fetching.fetch_window import Wanted
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.clientcore.addresses import name_of
from logd.errors import BrokerUnavailable, WireError
from logd.protocol.requests.fetch_session import FetchWaitResponseV1
from logd.protocol.requests.requests import MAX_ITEMS

#: Bytes of one answer, unless what it is asked for is more: the client decodes while the broker sends the next one.
ANSWER_BYTES = 1 << 20
#: Bytes of an answer's frame that are left for everything but the sets: its head, and a head for each part.
_FRAME_MARGIN = 64 << 10
_PART_BYTES = 34
#: Seconds that a broker may hold a request back at least. What arrives is answered at once, and with a shorter wait
#: empty requests and answers would follow each other without an end.
LEAST_WAIT = 0.1
#: Sessions on one connection that the broker may end before it is asked for no further one.
MOST_REFUSALS = 3


class SessionFetching:
    """The fetch sessions of one consumer, one with each broker."""

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        memory: FetchMemory,
        entries: Mapping[PartitionFetch, FetchEntry],
        recovery: FetchRecovery,
        arrived: Callable[[BrokerLink, Sequence[Answered]], None],
        look_at: Callable[[FetchEntry], None],
    ) -> None:
        """``arrived(link, answered)`` is called with each answer, ``look_at(entry)`` with an entry to be fetched."""
        self._cluster = cluster
        self._settings = settings
        self._memory = memory
        self._entries = entries
        self._recovery = recovery
        self._arrived = arrived
        self._look_at = look_at
        self._sessions: dict[BrokerLink, ClientFetchSession] = {}
        #: The connection on which a broker has refused sessions, and how many.
        self._refusals: dict[BrokerLink, tuple[ClientConnection, int]] = {}

    def of(self, link: BrokerLink) -> ClientFetchSession | None:
        """Return the session to fetch with on a link that is connected; None to fetch without."""
        connection = link.current
        session = self._sessions.get(link)
        if session is not None and session.connection is connection:
            return session
        watched = len(self._entries)
        if connection is None or not self._settings.session_partitions < watched <= MAX_ITEMS:
            return None
        refused_on, refusals = self._refusals.get(link, (None, 0))
        if refused_on is connection and refusals >= MOST_REFUSALS:
            return None
        if session is not None:  # its connection is lost, and its requests fail soon
            self._end(link, session)
        session = self._sessions[link] = ClientFetchSession(link.new_session(), connection)
        return session

    def send(self, link: BrokerLink, plan: FetchPlan, session: ClientFetchSession, now: float) -> None:
        """Send the requests that are due to the broker of ``link``. ``now`` is in the clock's seconds."""
        watched, memory = len(self._entries), self._memory
        free = MOST_REQUESTS - session.under_way
        room, enough = memory.pieces(), memory.enough_pieces
        chunks = plan.take_for_session(now, watched, room, free, session.behind, enough)
        behind = sum([len(entries) for entries in chunks if entries[0].fetch.behind])
        shares = {True: memory.share_behind(watched, behind), False: memory.share(watched)}
        for entries in chunks:
            share = shares[entries[0].fetch.behind]
            wants = [(entry, want) for entry in entries if (want := entry.fetch.wanted(share)) is not None]
            if wants:
                self._ask(link, plan, session, wants)
        if session.must_send:
            self._ask(link, plan, session, [])

    def forget(self, entry: FetchEntry) -> BrokerLink | None:
        """Take an entry out of its session, if it is in one; return the link whose broker has to be told."""
        session = entry.session
        if session is None:
            return None
        session.forget(entry)
        return next((link for link, each in self._sessions.items() if each is session), None)

    def _ask(
        self,
        link: BrokerLink,
        plan: FetchPlan,
        session: ClientFetchSession,
        wants: list[tuple[FetchEntry, Wanted]],
    ) -> None:
        cluster = self._cluster
        total = 0
        for entry, want in wants:
            fetch = entry.fetch
            total += want.max_bytes
            if fetch.topic not in session.views:
                session.views[fetch.topic] = cluster.known(fetch.topic)
        wait = max(self._settings.max_wait, LEAST_WAIT)
        request = session.request(wants, wait, 0)
        for entry, want in wants:
            entry.fetch.asked(want)
            self._memory.count(entry)
        most = cluster.settings.frame_bytes - _FRAME_MARGIN - _PART_BYTES * session.armed
        request = request._replace(max_bytes=max(1, min(max(total, ANSWER_BYTES), most)))
        timeout = wait + cluster.settings.request_timeout
        answer = link.ask(session.connection, request, timeout, partial(_partitions_of, session))
        answer.addCallbacks(
            self._answered, self._failed, callbackArgs=(link, plan, session), errbackArgs=(link, plan, session)
        ).addErrback(self._bug)

    def _answered(
        self, response: FetchWaitResponseV1, link: BrokerLink, plan: FetchPlan, session: ClientFetchSession
    ) -> None:
        session.under_way -= 1
        if self._sessions.get(link) is not session:
            return
        wrong = session.misfit(response)
        if wrong:
            session.connection.abort()
            what = f"the broker at {name_of(link.address)}: its answer in a fetch session makes no sense: {wrong}"
            self._failed_all(BrokerUnavailable(what), link, plan, session)
            return
        answered = session.answered(response)
        self._check_metadata(link, session)
        self._arrived(link, answered)

    def _check_metadata(self, link: BrokerLink, session: ClientFetchSession) -> None:
        """Have partitions planned again that new metadata gives to another broker or another topic.

        Partitions whose logs are idle are in no answer, so this is where a change is noticed.
        """
        cluster = self._cluster
        if not cluster.settings.discover:
            return
        changed = set()
        for topic, view in session.views.items():
            known = cluster.known(topic)
            if known is not view:
                changed.add(topic)
                session.views[topic] = known
            elif known is not None and cluster.clock.seconds() - known.read_at > cluster.settings.metadata_age:
                cluster.refresh(topic)
        if not changed:
            return
        for entry in session.entries:
            fetch = entry.fetch
            if fetch.topic not in changed:
                continue
            try:
                stays = cluster.leader(fetch.topic, fetch.partition) is link
            except WireError:
                stays = False
            known = session.views[fetch.topic]
            if not stays or known is None or not fetch.identity.matches(known.uuid):
                want = session.forget(entry)
                if want is not None:
                    fetch.answered(want)
                self._look_at(entry)

    def _failed(self, failure: Failure, link: BrokerLink, plan: FetchPlan, session: ClientFetchSession) -> None:
        session.under_way -= 1
        if self._sessions.get(link) is not session:
            return
        error = failure.value
        if not isinstance(error, WireError):
            self._failed_all(failure.value, link, plan, session)
            return
        connection, refusals = self._refusals.get(link, (None, 0))
        refusals = refusals if connection is session.connection else 0
        refusals += 1 if session.accepted else MOST_REFUSALS
        self._refusals[link] = session.connection, refusals
        self._log.debug(
            "the broker at {address} ends a fetch session: {error}", address=name_of(link.address), error=error
        )
        self._end(link, session)
        for entry in plan.take_all():
            self._look_at(entry)

    def _failed_all(
        self, error: BaseException | None, link: BrokerLink, plan: FetchPlan, session: ClientFetchSession
    ) -> None:
        """Fail what the session was asked for, as its connection is lost."""
        del self._sessions[link]
        for entry, want in session.end():
            if entry.fetch.answered(want):
                self._recovery.failed(entry, error)
        # Entries queued behind a failed request may have another leader by now, and no answer will wake them.
        for entry in plan.take_all():
            self._look_at(entry)

    def _end(self, link: BrokerLink, session: ClientFetchSession) -> None:
        """End a session whose connection goes on, or is known to be lost: its partitions are asked for again."""
        del self._sessions[link]
        for entry, want in session.end():
            entry.fetch.answered(want)
            self._look_at(entry)

    def _bug(self, failure: Failure) -> None:
        self._log.failure("a bug in fetching", failure)


def _partitions_of(session: ClientFetchSession) -> list[tuple[str, int]]:
    """Return the partitions of a session, since its requests name only those that have changed."""
    return [(entry.fetch.topic, entry.fetch.partition) for entry in session.entries]
