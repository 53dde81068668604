"""The contents of the pages, from the broker in this process, the coordination tree, and the other brokers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from logd.audit.event import AUDIT_TOPIC, decode_event
from logd.audit.reconciliation import Reconciliation
from logd.audit.verdicts import Verdict, judge
from logd.audit.windows import DEFAULT_WIDTH
from logd.broker.broker import Broker
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.read_timeout import with_patience
from logd.client.consumer.stream import MessageStream
from logd.client.starting_positions import Position, Start, Time, check_start, resolve, time_of
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.deferreds.gathering import gather_some
from logd.errors import CoordinationUnavailable, LogdError, UnknownTopic
from logd.plurals import counted
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.web.console.elsewhere_sizes import ElsewhereSizes
from logd.web.console.group_lags import GroupLags
from logd.web.console.history import SAMPLE_SECONDS, History
from logd.web.console.requested_operations import RequestedOperations
from logd.web.console.rows import PartitionRow, ShownMessages
from logd.web.console.shared_readings import SharedReading
from logd.web.console.topic_rows import TopicRows

#: Messages on one page, and the bytes before the end among which the last ones are looked for.
MOST_MESSAGES = 50
TAIL_BYTES = 64 << 10
#: Messages that are read to find the last ones: a compressed set of some KiB may hold a million.
MOST_LOOKED_AT = 50_000
#: Hours of the audit's windows that are judged, and messages of its topic that are read for that.
AUDIT_HOURS = 24
MOST_EVENTS = 200_000
#: Seconds for which the verdicts are shown again before the topic is read anew.
AUDIT_KEPT = 15.0


@define(eq=False)
class ConsoleSources:
    """The sources of one broker's console. ``start`` begins to sample; what needs other processes is awaited."""

    _log = Logger()

    _reactor: Any
    #: Returns the broker, None while it starts.
    _broker: Callable[[], Broker | None]
    _tree: Callable[[], ICoordination | None]
    #: Settings of clients that this broker uses to ask all brokers, with its own identity.
    _client_settings: Callable[[], Mapping[str, Any]] = dict
    history: History = field(factory=History, init=False)
    topics: TopicRows = field(init=False)
    groups: GroupLags = field(init=False)
    requested: RequestedOperations = field(init=False)
    _audit: SharedReading[tuple[list[Verdict], bool]] = field(init=False)
    _sampling: Any = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.topics = TopicRows(self._reactor, lambda: self.broker, ElsewhereSizes(self._reactor, self._admin))
        self.requested = RequestedOperations(self._reactor, lambda: self.tree)
        self.groups = GroupLags(self._reactor, lambda: self.tree, self._admin, self.consumer)
        self._audit = SharedReading(self._reactor, AUDIT_KEPT, self._read_audit)

    # Samples

    def start(self) -> None:
        """Take a sample now, and then regularly."""
        self._sample()

    def stop(self) -> None:
        """Take no more samples."""
        if self._sampling is not None and self._sampling.active():
            self._sampling.cancel()
        for each in (self.topics.elsewhere, self.groups, self._audit):
            each.stop()

    def _sample(self) -> None:
        self._sampling = self._reactor.callLater(SAMPLE_SECONDS, self._sample)
        broker = self._broker()
        if broker is None:
            return
        try:
            counters = broker.counters
            self.history.sample(
                time.time(),
                {
                    "bytes_in": counters.bytes_in,
                    "bytes_out": counters.bytes_out,
                    "messages_in": counters.messages_in,
                    "requests": counters.requests,
                    "connections": len(broker.sessions),
                    "unflushed_bytes": broker.store.unflushed_bytes,
                },
            )
            self.topics.sample(self._reactor.seconds())
        except Exception:
            self._log.failure("the console could not take a sample")

    # Facts that this broker knows by itself

    @property
    def broker(self) -> Broker:
        """The broker. Raises CoordinationUnavailable while it starts."""
        broker = self._broker()
        if broker is None:
            raise CoordinationUnavailable("the broker is starting")
        return broker

    async def overview(self) -> dict[str, Any]:
        """Return the state of the cluster as this broker sees it."""
        broker = self.broker
        led, requested = await self.topics.led(), await self.requested.now()
        health = broker.health()
        live = broker.brokers()
        rows = [
            {
                "id": number,
                "address": "{}:{}".format(*live[number]) if number in live else "",
                "live": number in live,
                "here": number == broker.store.broker_id,
                "partitions": led.by_broker.get(number, 0),
                "drained": number in requested.drained,
            }
            for number in sorted({*live, *led.storing, *led.by_broker, *requested.drained})
        ]
        return {
            "cluster": broker.topics.cluster(),
            "health": health,
            "brokers": rows,
            "topics": len(broker.topics.names()),
            "partitions": broker.topics.partitions,
            "problems": list(_problems(health, rows)),
            "under_replicated": led.under_replicated if led.under_replicated or health.get("replicas") else None,
            "leaderless": led.leaderless,
            "requested": requested,
            "latest": self.history.latest(),
        }

    def topic(self, name: str) -> dict[str, Any]:
        """Return one topic's settings and numbers. Raises UnknownTopic."""
        broker = self.broker
        entry = broker.topics.get(name)
        if entry is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return {
            "row": self.topics.one(name),
            "uuid": entry.uuid,
            "settings": {**dict(entry.settings), **dict(entry.kafka_settings)},
            "numbers": sorted(entry.partitions),
        }

    async def partitions(self, name: str, numbers: Sequence[int]) -> list[PartitionRow]:
        """Return partitions of a topic; those of other brokers are asked for there."""
        broker = self.broker
        entry = broker.topics.get(name)
        live = broker.brokers()
        rows: dict[int, PartitionRow] = {}
        elsewhere = []
        for number in numbers:
            led = None if entry is None else broker.replication.leadership(name, number, entry, live)
            leader = -1 if led is None else led.leader
            if leader == -1 and led is not None and len(led.replicas) == 1:
                (leader,) = led.replicas
            replicas = led.replicas if led is not None and len(led.replicas) > 1 else ()
            missing = () if led is None or not led.in_sync else sorted({*led.replicas} - {*led.in_sync})
            lag = f"not in sync: {', '.join(map(str, missing))}" if missing else ""
            address = "{}:{}".format(*live[leader]) if leader in live else ""
            log = broker.store.log(name, number)
            if log is not None and leader in (broker.store.broker_id, -1):
                rows[number] = PartitionRow(
                    number,
                    leader,
                    address,
                    log.start,
                    log.end,
                    log.visible_end,
                    len(log.segments()),
                    str(log.offline or lag),
                    replicas,
                )
            elif leader not in live:
                stored = " or ".join(map(str, () if led is None else led.replicas))
                rows[number] = PartitionRow(
                    number, leader, address, None, None, None, None, f"broker {stored} is not registered", replicas
                )
            else:
                elsewhere.append(PartitionRow(number, leader, address, None, None, None, None, lag, replicas))
        if elsewhere:
            async with self._admin() as admin:
                for row in await gather_some((self._asked(admin, name, each) for each in elsewhere), 50):
                    rows[row.number] = row
        targets = (await self.requested.now()).targets(name, "" if entry is None else entry.uuid)
        return [evolve(rows[number], target=targets.get(number, ())) for number in numbers]

    async def _asked(self, admin: Admin, name: str, row: PartitionRow) -> PartitionRow:
        try:
            log = await admin.describe_log(name, row.number)
        except LogdError as error:
            return evolve(row, problem=str(error))
        return evolve(
            row, start=log.log_start, end=log.log_end, visible_end=log.visible_end, segments=len(log.segments)
        )

    # Groups

    @property
    def tree(self) -> ICoordination:
        """A connected client of the coordination tree. Raises CoordinationUnavailable."""
        tree = self._tree()
        if tree is None or tree.state is not SessionState.CONNECTED:
            raise CoordinationUnavailable("the coordination tree cannot be reached now")
        return tree

    # Messages and the audit

    async def messages(self, topic: str, partition: int, start: Start | None, most: int) -> ShownMessages:
        """Return the messages of a partition from a place on; by default the last ones. Raises LogdError."""
        most = min(max(most, 1), MOST_MESSAGES)
        async with self._admin() as admin:
            first, log = await self._place(admin, topic, partition, start)
        found: list[Message] = []
        position, looked_at = first, 0
        async with self.consumer() as consumer:
            (stream,) = consumer.create_message_streams(topic, 1, [partition], Position(first))
            complaint = f"the leader of {topic}-{partition} sent no messages"
            batches = stream.batches({partition: log.visible_end})
            while first < log.visible_end and (looked_at < MOST_LOOKED_AT if start is None else len(found) < most):
                batch = await with_patience(self._reactor, _next(batches), complaint)
                if batch is None:
                    position = log.visible_end
                    break
                looked_at += len(batch.messages)
                found += batch.messages
                if start is None:
                    del found[:-most]
                else:
                    del found[most:]
                position = found[-1].next_position if found else position
        return ShownMessages(found, found[0].id if found else first, position, log.log_start, log.visible_end)

    async def _place(
        self, admin: Admin, topic: str, partition: int, start: Start | None
    ) -> tuple[int, DescribeLogResponse]:
        """Return the position to begin at; for None one near the end, at an entry."""
        if start is None:
            log = await admin.describe_log(topic, partition)
            near = max(log.visible_end - TAIL_BYTES, log.log_start)
            if near > log.log_start:
                (near,) = (await admin.describe_log(topic, partition, positions=(near,))).boundaries
            return near, log
        checked = check_start(start)
        log = await admin.describe_log(topic, partition, time=time_of(checked))
        if isinstance(checked, Position):
            return min(max(checked.value, log.log_start), log.visible_end), log
        return resolve(checked, log), log

    async def audit(self) -> tuple[list[Verdict], bool]:
        """Return the verdicts of the last day, the latest window first, and whether all events were read.

        Read anew now and then, however many ask.
        """
        return await self._audit.get()

    async def _read_audit(self) -> tuple[list[Verdict], bool]:
        sums = Reconciliation(DEFAULT_WIDTH)
        begin = round((time.time() - AUDIT_HOURS * 3600) * 1000)
        if self.broker.topics.get(AUDIT_TOPIC) is None:
            return [], True  # no client has reported yet
        count, whole = 0, True
        complaint = f"a leader of topic {AUDIT_TOPIC} sent no messages"
        async with self.consumer() as consumer:
            (stream,) = consumer.create_message_streams(AUDIT_TOPIC, 1, start=Time(max(begin, 0)))
            batches = stream.batches(await with_patience(self._reactor, _ends(stream), complaint))
            while (batch := await with_patience(self._reactor, _next(batches), complaint)) is not None:
                for message in batch.messages:
                    try:
                        sums.add(decode_event(message.payload))
                    except ValueError:
                        continue  # told by `logd audit`
                count += len(batch.messages)
                if count > MOST_EVENTS:
                    whole = False
                    break
        verdicts = sorted(judge(sums, round(time.time() * 1000), begin=max(begin, 0)), key=_newest_first)
        return verdicts, whole

    def _admin(self) -> _Closing:
        return _Closing(Admin([self.broker.advertised], reactor=self._reactor, **self._client_settings()))

    def consumer(self) -> Consumer:
        """Return a consumer of no group."""
        return Consumer([self.broker.advertised], reactor=self._reactor, on_corrupt="skip", **self._client_settings())

    def admin(self) -> _Closing:
        """Return an admin client, closed at the end of ``async with``."""
        return self._admin()


@frozen
class _Closing:
    """Closes an admin client at the end of ``async with``."""

    _admin: Admin

    async def __aenter__(self) -> Admin:
        return self._admin

    async def __aexit__(self, *_: object) -> None:
        await self._admin.close()


async def _ends(stream: MessageStream) -> dict[int, int]:
    return await stream.end_positions()


async def _next(batches: AsyncIterator[MessageBatch]) -> MessageBatch | None:
    return await anext(batches, None)


def _newest_first(verdict: Verdict) -> tuple[int, str, str]:
    return -verdict.window, verdict.topic, verdict.stage


def _problems(health: Mapping[str, Any], brokers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if health.get("problem"):
        yield f"coordination: {health['problem']}"
    for what in ("offline", "lost", "conflicts"):
        for place, reason in dict(health.get(what) or {}).items():
            yield f"{place} ({what}): {reason}"
    for place in health.get("full") or ():
        yield f"{place}: the disk is full"
    for row in brokers:
        if not row["live"]:
            leads = f"leads {counted(row['partitions'], 'partition')}" if row["partitions"] else "has replicas"
            yield f"broker {row['id']} is not registered; it {leads}"
