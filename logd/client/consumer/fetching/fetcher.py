"""The fetcher: asks each broker for the partitions that want more bytes, together, and hands the answers on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.audit.consumer_audit import ConsumerAudit
from logd.client.cluster.cluster import Cluster
from logd.client.cluster.describe_log import describe_logs
from logd.client.cluster.link import BrokerLink, ClientConnection
from logd.client.consumer.fetching.fetch_memory import FetchMemory
from logd.client.consumer.fetching.fetch_plan import FetchEntry, FetchPlan, longest_wait
from logd.client.consumer.fetching.fetch_recovery import FetchRecovery
from logd.client.consumer.fetching.fetch_window import Wanted
from logd.client.consumer.fetching.partition_fetch import FetchState, PartitionFetch
from logd.client.consumer.fetching.session_fetching import SessionFetching
from logd.client.dead_letters.writer import DeadLetters
from logd.client.settings import ConsumerSettings
from logd.clientcore.metadata import TopicView
from logd.errors import ClientClosed, OffsetOutOfRange, WireError, error_for_code
from logd.interfaces import Timer
from logd.protocol.requests.fetch_session import SessionPart
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse

#: Bytes in an answer's frame that are left for everything but the sets.
FRAME_MARGIN = 64 << 10


class Fetcher:
    """The fetches of one consumer. A step looks only at partitions for which something has changed."""

    _log = Logger()

    def __init__(self, cluster: Cluster, settings: ConsumerSettings, dead_letters: DeadLetters | None = None) -> None:
        """``dead_letters``: the writer for damaged bytes, if the settings want them stored."""
        #: The audit of the consumer, in which its streams count; None without the setting ``audit``.
        self.audit: ConsumerAudit | None = None
        self._cluster = cluster
        self._clock = cluster.clock
        self._settings = settings
        self._memory = FetchMemory(settings.prefetch_bytes)
        self._entries: dict[PartitionFetch, FetchEntry] = {}
        #: Entries to look at in this turn of the reactor, since something has changed for them.
        self._changed: dict[FetchEntry, None] = {}
        self._plans: dict[BrokerLink, FetchPlan] = {}
        #: Calls at the time from which idle entries may be fetched.
        self._timers: dict[BrokerLink, Timer] = {}
        self._recovery = FetchRecovery(cluster, self._entries, self._look_at, dead_letters)
        self._sessions = SessionFetching(
            cluster, settings, self._memory, self._entries, self._recovery, self._arrived, self._look_at
        )
        #: Brokers that have to be told of partitions to forget.
        self._to_tell: dict[BrokerLink, None] = {}
        self._scheduled = False
        self._connecting: set[BrokerLink] = set()
        self._closed = False

    def add(self, fetch: PartitionFetch, arrived: Callable[[Sequence[PartitionFetch]], None]) -> None:
        """Fill a partition fetch.

        ``arrived(fetches)`` is called when it has something to take, or its ``error`` is set; others that were added
        with the same callback may be told together with it.
        """
        backoff = self._cluster.backoff()
        self._entries[fetch] = entry = FetchEntry(fetch, arrived, backoff)
        self._look_at(entry)

    def remove(self, fetch: PartitionFetch) -> None:
        """Stop filling a partition fetch."""
        entry = self._entries.pop(fetch, None)
        if entry is not None:
            self._recovery.forget(fetch)
            self._changed.pop(entry, None)
            self._memory.release(entry)
            if entry.plan is not None:
                entry.plan.discard(entry)
            link = self._sessions.forget(entry)
            if link is not None:
                self._to_tell[link] = None
                self._schedule()

    def wake(self, fetch: PartitionFetch) -> None:
        """Look at a partition fetch at the end of this turn of the reactor, since it may want bytes."""
        entry = self._entries.get(fetch)
        if entry is not None:
            self._look_at(entry)

    async def visible_ends(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Return the ends of the partitions' visible logs. Raises what describe_log raises."""
        logs = await describe_logs(self._cluster, topic, partitions)
        return {partition: log.visible_end for partition, log in logs.items()}

    def close(self) -> None:
        """Stop all fetches."""
        self._closed = True
        self._recovery.stop()
        self._entries.clear()
        self._changed.clear()
        self._plans.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _look_at(self, entry: FetchEntry) -> None:
        self._changed[entry] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._clock.callLater(0, self._woken)

    def _woken(self) -> None:
        self._scheduled = False
        self._issue()

    def _issue(self, *answered: BrokerLink) -> None:
        """Send requests for the entries that have changed, and to the brokers that have ``answered``."""
        if self._closed:
            return
        changed, self._changed = self._changed, {}
        links = {**self._to_tell, **dict.fromkeys(answered)}
        self._to_tell.clear()
        for entry in changed:
            link = self._planned(entry)
            if link is not None:
                links[link] = None
        for link in links:
            self._send_planned(link)

    def _planned(self, entry: FetchEntry) -> BrokerLink | None:
        """Queue an entry that wants bytes in the plan of its leader; return the link to that broker."""
        fetch = entry.fetch
        if fetch not in self._entries:
            return None
        self._memory.count(entry)
        state = fetch.state
        if state is FetchState.FETCHING and not fetch.identity.doubted:
            if entry.plan is not None:  # queued already; the memory that it has freed may be what the queue waits for
                return next((link for link, plan in self._plans.items() if plan is entry.plan), None)
            if entry.armed is not None and entry.armed.generation == fetch.generation:
                return None  # the answer to come brings it here again
        if entry.held_up or state is FetchState.FAILED:
            return None
        if state in (FetchState.LOCATING, FetchState.SEARCHING) and not self._assume_start(fetch):
            self._recovery.locate(entry)
            return None
        if fetch.wanted(self._settings.prefetch_bytes) is None:
            return None
        view = self._cluster.known(fetch.topic)
        link = entry.link if view is entry.view and view is not None and self._is_fresh(view) else None
        if link is None or fetch.identity.doubted:
            if not self._recovery.is_of_its_topic(entry):
                return None
            try:
                link = self._cluster.leader(fetch.topic, fetch.partition)
            except WireError as error:
                self._recovery.failed(entry, error)
                return None
            entry.view, entry.link = view, link
        plan = self._plans.get(link)
        if plan is None:
            plan = self._plans[link] = FetchPlan()
        plan.add(entry)
        return link

    def _is_fresh(self, view: TopicView) -> bool:
        """Return whether metadata need not be read again for its age."""
        return bool(self._clock.seconds() - view.read_at <= self._cluster.settings.metadata_age)

    def _assume_start(self, fetch: PartitionFetch) -> bool:
        """Begin a log that is to be read from its start by fetching, without a request for its ends, if that is enough.

        A group has to know the log's topic first, and metadata has to be there.
        """
        view = self._cluster.known(fetch.topic)
        if fetch.start != "earliest" or fetch.identity.fixed or view is None:
            return False
        if fetch.partition in view.offline:  # the broker's description of the log says why
            return False
        fetch.assume_start()
        return True

    def _send_planned(self, link: BrokerLink) -> None:
        """Send the requests that a broker's plan allows now, and set a timer for the rest."""
        plan = self._plans.get(link)
        if plan is None:
            return
        if link.current is None:
            if plan.has_any and link not in self._connecting:
                self._connecting.add(link)
                link.get().addCallbacks(self._connected, self._unreachable, callbackArgs=(link,), errbackArgs=(link,))
            return
        now = self._clock.seconds()
        session = self._sessions.of(link)
        if session is not None:
            self._sessions.send(link, plan, session, now)
            due = plan.gathered_at()
        else:
            self._send_without_session(link, link.current, plan, now)
            due = plan.next_time()
        if due is not None and link not in self._timers:
            self._timers[link] = self._clock.callLater(max(0.0, due - now), self._due, link)

    def _send_without_session(
        self, link: BrokerLink, connection: ClientConnection, plan: FetchPlan, now: float
    ) -> None:
        watched, memory = len(self._entries), self._memory
        requests = plan.take(now, watched, memory.pieces(), memory.enough_pieces)
        behind = sum([len(entries) for entries in requests if entries[0].fetch.behind])
        shares = {True: memory.share_behind(watched, behind), False: memory.share(watched)}
        for entries in requests:
            share = shares[entries[0].fetch.behind]
            wants = [(entry, want) for entry in entries if (want := entry.fetch.wanted(share)) is not None]
            if wants:
                self._send(link, connection, plan, wants)

    def _due(self, link: BrokerLink) -> None:
        del self._timers[link]
        self._send_planned(link)

    def _send(
        self, link: BrokerLink, connection: ClientConnection, plan: FetchPlan, wants: list[tuple[FetchEntry, Wanted]]
    ) -> None:
        parts = []
        total = 0
        waits = not any(entry.fetch.behind for entry, _ in wants)
        for entry, want in wants:
            fetch = entry.fetch
            fetch.asked(want)
            self._memory.count(entry)
            total += want.max_bytes
            parts.append(FetchPart(fetch.topic, fetch.partition, 0, want.offset, want.max_bytes, want.exact))
        most = min(total, self._cluster.settings.frame_bytes - FRAME_MARGIN - 256 * len(parts))
        wait = longest_wait(self._settings.max_wait, len(self._entries), len(parts))
        if any(entry.fetch.assumed for entry, _ in wants):
            wait = 0.0  # a reader may wait for the positions, of empty logs too
        request = FetchWait(int(wait * 1000), 1, max(1, most), tuple(parts))
        plan.begin(waits)
        answer = link.ask(connection, request, wait + self._cluster.settings.request_timeout)
        answer.addCallbacks(
            self._answered, self._failed, callbackArgs=(link, plan, wants, waits), errbackArgs=(plan, wants, waits)
        ).addErrback(self._bug)

    def _answered(
        self,
        response: FetchWaitResponse,
        link: BrokerLink,
        plan: FetchPlan,
        wants: list[tuple[FetchEntry, Wanted]],
        waits: bool,
    ) -> None:
        plan.end(waits)
        self._arrived(link, [(entry, want, part) for (entry, want), part in zip(wants, response.parts, strict=True)])

    def _arrived(
        self, link: BrokerLink, answered: Sequence[tuple[FetchEntry, Wanted, FetchedPart | SessionPart]]
    ) -> None:
        """Take what an answer has for each fetch, ask the broker for more, and tell the streams."""
        arrived = []
        changed = self._changed
        for entry, want, part in answered:
            fetch = entry.fetch
            if fetch not in self._entries:
                continue
            if part.error == 0:
                entry.backoff.reset()
                self._recovery.served(fetch)
                if fetch.received(want, part.first_position, part.message_set, part.visible_end):
                    entry.idle = False
                    arrived.append(entry)
                else:  # entries without bytes go before the others in the next request
                    entry.idle = part.visible_end <= want.offset
                    changed[entry] = None
            elif part.error == OffsetOutOfRange.code:
                self._recovery.out_of_range(entry, want, part, link)
            elif fetch.answered(want):
                self._recovery.failed(entry, error_for_code(part.error))
        for entry in arrived:
            changed[entry] = None
        self._issue(link)  # before anything is decoded: the broker works while we do
        by_stream: dict[Callable[[Sequence[PartitionFetch]], None], list[PartitionFetch]] = {}
        for entry in arrived:
            by_stream.setdefault(entry.arrived, []).append(entry.fetch)
        for tell, fetches in by_stream.items():
            tell(fetches)

    def _failed(self, failure: Failure, plan: FetchPlan, wants: list[tuple[FetchEntry, Wanted]], waits: bool) -> None:
        plan.end(waits)
        for entry, want in wants:
            if entry.fetch.answered(want):
                self._recovery.failed(entry, failure.value)
        # Entries queued behind a failed request may have another leader by now, and no answer will wake them.
        for entry in plan.take_all():
            self._look_at(entry)

    def _connected(self, _: object, link: BrokerLink) -> None:
        self._connecting.discard(link)
        self._issue(link)

    def _unreachable(self, failure: Failure, link: BrokerLink) -> None:
        self._connecting.discard(link)
        plan = self._plans.get(link)
        if plan is not None and not failure.check(ClientClosed):
            for entry in plan.take_all():
                self._recovery.failed(entry, failure.value)

    def _bug(self, failure: Failure) -> None:
        self._log.failure("a bug in fetching", failure)
