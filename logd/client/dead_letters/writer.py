"""Publishes dead letters over a consumer's connections: each is flushed in the dead-letter topic before it counts."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import evolve
from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.client.cluster.cluster import Cluster
from logd.client.dead_letters.letter import (
    CIRCLE,
    MESSAGE,
    MOST_COUNT,
    MOST_TEXT,
    RANGE,
    DeadLetter,
    Origin,
    ends_circle,
    error_words,
    times_dead,
)
from logd.clientcore.answers import is_final
from logd.deferreds.locking import QueueSemaphore
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.errors import (
    ClientClosed,
    ConfigurationError,
    CorruptMessage,
    DeadLetterFailed,
    InvalidTopic,
    LogdError,
    MessageTooLarge,
    WrongPartition,
    error_for_code,
)
from logd.protocol import loops
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducePart
from logd.topic import check_topic_name

#: Letters of one writer that are under way at a time, so that many failures at once take bounded memory.
AT_ONCE = 8


class DeadLetters:
    """The writer of one dead-letter topic, ``Consumer.dead_letters``; a letter counts once it is flushed (acks -1).

    A topic that does not exist is made if the brokers allow it. While it cannot be written, a letter is tried again
    for the consumer's ``dead_letter_timeout`` seconds. A letter whose answer was lost may be stored twice.

    A letter around MOST_COUNT others has the error CIRCLE, and is the last one: a message that is such a letter, and
    fails again, is logged and passed. So neither a circle of topics nor forged headers stop a handler.
    """

    _log = Logger()

    def __init__(self, cluster: Cluster, topic: str, group: str, timeout: float, time_ms: Callable[[], int]) -> None:
        """``group``: that of the consumer, "" without one. Raises InvalidTopic."""
        check_topic_name(topic)
        #: The name of the dead-letter topic.
        self.topic = topic
        self._cluster = cluster
        self._group = group
        self._timeout = timeout
        self._time_ms = time_ms
        self._at_once = QueueSemaphore(AT_ONCE)
        self._next_partition = 0

    def add(self, message: Message, error: BaseException, attempts: int = 1) -> Deferred[None]:
        """Publish a message that was read and could not be handled; fires once it is flushed. Cancellable.

        Key, payload, time and headers stay; the headers of the letter come behind them (see letter.py). Fails with
        DeadLetterFailed if the topic cannot be written within the time, and at once if the brokers refuse the letter:
        the message must then not be passed. Fails with ClientClosed once the consumer is closed. Raises
        ConfigurationError for a message of the dead-letter topic itself, and for one that was not read from a topic.
        """
        name = message.topic
        if name is None:
            raise ConfigurationError("a dead letter is a message that was read from a topic; this one has no place")
        origin = Origin(name, message.partition, message.id, message.next_position)
        return self._add(origin, MESSAGE, error, attempts, message)

    def add_range(self, topic: str, partition: int, start: int, end: int, data: bytes, reason: str) -> Deferred[None]:
        """Publish the bytes of a damaged range of a log, or their beginning; fires once flushed. Fails as ``add``."""
        origin = Origin(topic, partition, start, end)
        return self._add(origin, RANGE, CorruptMessage(reason), 1, Message(data))

    def _add(self, origin: Origin, kind: str, error: BaseException, attempts: int, message: Message) -> Deferred[None]:
        check_other_topic(origin.topic, self.topic)
        view = self._cluster.known(origin.topic)
        name, text = error_words(error)
        letter = DeadLetter(
            origin=origin._replace(uuid="" if view is None else view.uuid, group=self._group),
            kind=kind,
            error=name,
            text=text,
            time=self._time_ms(),
            attempts=attempts,
            count=times_dead(message) + 1,
            message=message,
        )
        return Deferred.fromCoroutine(self._publish(letter))

    async def _publish(self, letter: DeadLetter) -> None:
        if ends_circle(letter.message):
            self._log.error(
                "topic {topic!r}, partition {partition}: the message at {id} has failed again, after {count} dead "
                "letters whose topics form a circle: it is not written to {dead!r} once more, is passed, and stays "
                "where it is until retention removes it ({error}: {text}); end the circle: let no handler write its "
                "dead letters to a topic from which they come back",
                topic=letter.origin.topic,
                partition=letter.origin.partition,
                id=letter.origin.start,
                count=letter.count - 1,
                dead=self.topic,
                error=letter.error,
                text=letter.text[:MOST_TEXT],
            )
            return
        if letter.count > MOST_COUNT:
            said = (
                f"it has been a dead letter {letter.count - 1} times: the dead-letter topics form a circle, or its "
                f"headers were not made by logd; it failed with {letter.error}: {letter.text}"
            )
            letter = evolve(letter, error=CIRCLE, text=said)
        await self._at_once.acquire()
        try:
            await self._until_stored(letter)
        finally:
            self._at_once.release()

    async def _until_stored(self, letter: DeadLetter) -> None:
        clock = self._cluster.clock
        deadline = clock.seconds() + self._timeout
        backoff = self._cluster.backoff()
        message = letter.encoded()
        while True:
            left = max(0.001, deadline - clock.seconds())
            try:
                await with_timeout(clock, left, Deferred.fromCoroutine(self._send(message)))
                return
            except ClientClosed:
                raise
            except MessageTooLarge as error:
                if letter.kind != RANGE or not message.payload:
                    what = f"{error}: raise message.bytes of topic {self.topic!r} above that of {letter.origin.topic!r}"
                    raise self._failed(letter, what) from error
                half = message.payload[: len(message.payload) // 2]
                message = Message(half, headers=message.headers)
            except (LogdError, defer.TimeoutError) as error:
                if is_final(error) and not isinstance(error, WrongPartition):
                    raise self._failed(letter, str(error)) from error
                delay = backoff.next()
                if clock.seconds() + delay >= deadline:
                    why = str(error) or "no answer"
                    raise self._failed(letter, f"not within {self._timeout:g} seconds: {why}") from error
                await sleep(clock, delay)

    def _failed(self, letter: DeadLetter, why: str) -> DeadLetterFailed:
        origin = letter.origin
        return DeadLetterFailed(
            f"topic {origin.topic!r}, partition {origin.partition}: the {letter.kind} at {origin.start} could not be "
            f"written to the dead-letter topic {self.topic!r}, so reading does not go on behind it: {why}"
        )

    async def _send(self, message: Message) -> None:
        cluster, topic = self._cluster, self.topic
        with cluster.doubting(topic):
            view = cluster.known(topic) or await cluster.read(topic, create=True)
            if not view.partitions:
                raise WrongPartition(f"topic {topic!r} has no partitions yet")
            partition = view.partitions[self._chosen(message.key, len(view.partitions))]
            link = await cluster.find_keeper(topic, partition)
            connection = await link.get()
            timeout = cluster.settings.request_timeout
            part = ProducePart(topic, partition, 0, True, loops.encode_set([message]))
            request = ProduceAck(-1, int(timeout * 900), (part,))  # so that its answer comes before the timeout
            response: ProduceAckResponse = await link.ask(connection, request, timeout)
            error = response.parts[0].error
            if error:
                if error_for_code(error).retriable:
                    cluster.forget(topic)
                raise error_for_code(error, f"topic {topic!r}: {error_for_code(error)}")

    def _chosen(self, key: bytes | None, number: int) -> int:
        if key is not None:
            return partition_of_key(key, number)
        self._next_partition += 1
        return self._next_partition % number


def check_other_topic(topic: str, dead_letters: str) -> None:
    """Raise ConfigurationError where a topic would be its own dead-letter topic, and its failures never end."""
    if topic == dead_letters:
        raise ConfigurationError(
            f"dead_letters = {dead_letters!r} is not allowed for messages of that same topic: name another topic"
        )


def check_not_read(text: str, dead_letters: str) -> None:
    """Raise ConfigurationError if the dead-letter topic is one of a stream's: ``text`` is a topic or a pattern."""
    try:
        check_topic_name(text)
    except InvalidTopic:
        check_not_among(re.compile(text), dead_letters)
    else:
        check_not_among(text, dead_letters)


def check_not_among(topic: str | re.Pattern[str], dead_letters: str) -> None:
    """Raise ConfigurationError if the dead-letter topic is among the topics that are read; "" is no topic."""
    if isinstance(topic, str):
        check_other_topic(topic, dead_letters)
    elif dead_letters and topic.fullmatch(dead_letters):
        raise ConfigurationError(
            f"dead_letters = {dead_letters!r} is not allowed for the topics of {topic.pattern!r}, which matches it: "
            "its failures would be read again for ever"
        )
