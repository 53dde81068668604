"""Writes the log of administration to a topic: each broker appends to a partition of its own.

So nothing has to be sent to another broker, and nobody has to be let in for that. Records wait, within a bound, while
the topic cannot be written; each of them is a log line as well.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field
from twisted.logger import Logger

from logd.broker.reading import find_log
from logd.broker.requests.appender import Appender
from logd.broker.requests.core import BrokerCore
from logd.broker.security.administration_log import AdministrationLog, AdministrationRecord
from logd.coord.errors import CoordinationError
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError, TopicExists, UnknownTopic
from logd.log.partition import PartitionLog
from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.requests.produce_ack import ProducePart
from logd.topic import TopicEntry

#: Records that wait for the topic; beyond that the oldest are left to the log lines.
MOST_WAITING = 1000
#: Seconds between attempts.
RETRY_SECONDS = 5.0
#: The largest message; the details of a larger record are left to its log line.
MOST_BYTES = 64 << 10


@define(eq=False)
class AdministrationTopic:
    """The topic of one broker's records."""

    _log = Logger()

    _broker: BrokerCore
    _topic: str
    _waiting: deque[Message] = field(factory=deque, init=False)
    _background: Background = field(factory=lambda: Background("writing the log of administration"), init=False)
    #: Records that the topic does not have.
    lost: int = field(default=0, init=False)

    def publish(self, record: AdministrationRecord) -> None:
        """Append a record, now or as soon as that is possible."""
        content = {"broker": self._broker.store.broker_id, **record.to_json()}
        payload = json.dumps(content).encode()
        if len(payload) > MOST_BYTES:
            payload = json.dumps({**content, "details": {}, "reason": record.reason[:1000]}).encode()
        self._waiting.append(Message(payload, timestamp=record.time))
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.lost += 1
        if not len(self._background):
            self._background.start(self._work())

    def stop(self) -> None:
        """Try no more; what waits is lost to the topic."""
        self._background.stop()

    async def _work(self) -> None:
        failures = 0
        while self._waiting:
            try:
                self._append(await self._own_log())
                failures = 0
            except (LogdError, CoordinationError, ValueError, OSError) as error:
                failures += 1
                if failures & (failures - 1) == 0:
                    self._log.warn(
                        "records of administration cannot be written to topic {topic} "
                        "(security.administration.topic): {error}; {count} wait, and each is a log line as well",
                        topic=self._topic,
                        error=str(error),
                        count=len(self._waiting),
                    )
                await sleep(self._broker.clock, RETRY_SECONDS)

    def _append(self, log: PartitionLog) -> None:
        messages = tuple(self._waiting)
        data = loops.encode_set(messages)
        if self._broker.growth.must_wait([ProducePart(log.topic, log.partition, 0, True, data)], self._broker.store):
            raise UnknownTopic(f"{log.topic}-{log.partition} may not grow yet")
        appender = Appender(self._broker.counters)
        appender.add(log, data, len(messages), messages[-1].timestamp or -1)
        for error in appender.append():
            raise error
        self._waiting.clear()

    async def _own_log(self) -> PartitionLog:
        """Return the log of a partition that this broker stores; make the topic, or the partition, if there is none."""
        broker, me = self._broker, self._broker.store.broker_id
        if broker.topics.get(self._topic) is None:
            with suppress(TopicExists):
                await broker.administration.create(self._topic, 1, {}, brokers={0: (me,)})

        def with_mine(entry: TopicEntry) -> TopicEntry:
            count = len(entry.partitions) + 1
            return (
                entry
                if self._mine(entry)
                else broker.administration.with_partitions(self._topic, entry, count, [(me,)])
            )

        entry = broker.topics.get(self._topic)
        if entry is None:
            raise UnknownTopic(f"there is no topic {self._topic!r} yet")
        if not self._mine(entry):
            entry = await broker.administration.change(self._topic, with_mine)
        return find_log(broker.store, broker.topics, self._topic, self._mine(entry)[0])

    def _mine(self, entry: TopicEntry) -> list[int]:
        me = self._broker.store.broker_id
        return sorted(number for number, brokers in entry.partitions.items() if brokers[:1] == (me,))


def administration_log_of(broker: BrokerCore, wall: Callable[[], float]) -> AdministrationLog:
    """Return the log of a broker's administration, with the topic that its settings name."""
    log = AdministrationLog(broker.clock, wall)
    topic = broker.settings.security.security_administration_topic
    if topic is not None:
        log.topic = AdministrationTopic(broker, topic)
    return log
