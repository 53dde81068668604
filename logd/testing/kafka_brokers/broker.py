"""A broker that any client of Kafka can use, for the tests of the programs that do."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from twisted.internet.defer import CancelledError, Deferred

from logd.client.admin.admin import Admin
from logd.errors import LogdError
from logd.testing.kafka_brokers.data_folder import DataFolder
from logd.testing.kafka_brokers.private_reactor import ReactorEnded, ReactorThread
from logd.testing.kafka_brokers.records import KafkaRecord, read_records
from logd.testing.kafka_brokers.runs import BrokerInProcess, BrokerOnThread, BrokerRun
from logd.testing.kafka_brokers.serving import ServingSettings
from logd.testing.memory.cluster import NotYet
from logd.testing.reserved_port import ReservedPort

T = TypeVar("T")


class KafkaBroker:
    """One broker on a port of 127.0.0.1, from ``start`` to ``close``; see ``kafka``.

    Its methods block, and may be called on any thread. None of them needs the caller's event loop or reactor.
    """

    def __init__(
        self, *, process: bool = False, durable: bool = False, data: str | None = None, **settings: Any
    ) -> None:
        """See ``kafka``. Raises ConfigurationError for a setting that is not allowed."""
        self._owner = os.getpid()
        self._port = ReservedPort()
        self._folder: DataFolder | None = None
        self._thread = ReactorThread("logd-kafka")
        self._process = process
        self._durable = durable
        self._data = data
        self._more = settings
        self._run: BrokerRun | None = None
        self._native: tuple[str, int] | None = None
        self._seconds = 0.0
        #: The calls of logd's clients that callers of the broker wait for; used on the thread alone.
        self._questions: set[Deferred[Any]] = set()
        try:
            self._serving("checked").broker_settings()
        except BaseException:
            self._port.release()
            raise

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients of Kafka, ``127.0.0.1:PORT``: the same all the time, also when it is down."""
        return f"127.0.0.1:{self._port.number}"

    @property
    def native_address(self) -> tuple[str, int]:
        """The address for clients of logd, which changes with each start. Raises LogdError when the broker is down."""
        if self._native is None:
            raise LogdError(f"the broker of {self.bootstrap_servers} does not run: call start() first")
        return self._native

    def start(self) -> Self:
        """Start it, for the first time or again with its data, and return once it serves.

        Raises LogdError with the reason if it cannot start; MissingPackage without the extra ``kafka``.
        """
        if self._native is not None:
            raise LogdError(f"the broker of {self.bootstrap_servers} runs already")
        if self._run is None:
            self._prepare()
        assert self._run is not None
        try:
            self._native = self._run.start()
            if self._seconds:
                self._run.set_delay(self._seconds)
        except BaseException:
            self.close()
            raise
        return self

    def stop(self) -> None:
        """Stop it in order; ``start`` starts it again with its data. Does nothing when it is down."""
        self._down(lambda run: run.stop())

    def kill(self) -> None:
        """Let it die: every connection is cut, and no new one is accepted until ``start``. Its data stay.

        As a process it gets SIGKILL. On a thread nothing that was received is lost, as only the connections die.
        """
        self._down(lambda run: run.kill())

    def close(self) -> None:
        """Stop it and remove its data, unless they have a folder of yours. A second call does nothing.

        Nor does one in a forked child, whose parent has the broker.
        """
        if os.getpid() != self._owner:
            return
        try:
            self.stop()
        finally:
            self._thread.stop()
            self._port.release()
            if self._folder is not None:
                self._folder.remove()
            self._run = None

    def delay(self, seconds: float) -> None:
        """Let it see what clients of Kafka send only after ``seconds``, from now on; 0 ends that."""
        if not seconds >= 0:
            raise ValueError(f"a delay of {seconds} seconds is not allowed; allowed is a number from 0")
        self._seconds = seconds
        if self._run is not None:
            self._run.set_delay(seconds)

    def drop(self) -> int:
        """Cut off every connection of Kafka's clients, and return their number. New ones are accepted."""
        return 0 if self._run is None else self._run.drop()

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, int | str] | None = None) -> None:
        """Create a topic with logd's settings of topics, such as ``{"retention.ms": 60000}``.

        Clients create topics, too, with one partition, by producing to them. Raises TopicExists, InvalidTopic,
        ConfigurationError, and LogdError when the broker is down.
        """
        self._with_admin(lambda admin: admin.create(name, partitions, settings))

    def topics(self) -> list[str]:
        """Return the names of the topics. Raises LogdError when the broker is down."""
        return self._with_admin(lambda admin: admin.topics())

    def messages(self, topic: str, at_least: int = 0, timeout: float = 10.0) -> list[KafkaRecord]:
        """Return the records of a topic, by partition and offset: all that were acknowledged. No delay applies.

        An unknown topic has none. ``at_least``: wait until there are so many; after ``timeout`` seconds raise NotYet.
        Raises LogdError when the broker is down.
        """
        found = self._ask(lambda reactor, address: read_records(reactor, address, topic, at_least, timeout))
        if len(found) < at_least:
            raise NotYet(
                f"topic {topic!r} has {len(found)} of {at_least} records after {timeout:g} seconds; "
                f"the topics are {', '.join(map(repr, self.topics())) or 'none'}"
            )
        return found

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.start()  # some hundredths of a second: no event loop needs to be known for that

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serving(self, data: str) -> ServingSettings:
        return ServingSettings(data=data, kafka_port=self._port.number, durable=self._durable, more=self._more)

    def _prepare(self) -> None:
        """Make what lasts from the first start to ``close``."""
        if self._data is None or self._process:
            self._folder = DataFolder()
        settings = self._serving(self._data or f"{self._folder.path if self._folder else ''}/data")
        self._thread.start()  # clients of logd, for ``messages``, run there in any case
        if self._process:
            assert self._folder is not None
            self._run = BrokerInProcess(settings, self._folder.path)
        else:
            self._run = BrokerOnThread(self._thread, settings)

    def _down(self, end: Callable[[BrokerRun], None]) -> None:
        self._native = None  # before the questions are cancelled, so that none begins later
        if self._run is not None:
            with suppress(RuntimeError):  # the thread does not run: no question is under way
                self._thread.call(self._cancel_questions)
            end(self._run)

    def _cancel_questions(self) -> None:
        for asking in tuple(self._questions):
            asking.cancel()

    def _with_admin(self, work: Callable[[Admin], Deferred[T]]) -> T:
        async def run(reactor: Any, address: tuple[str, int]) -> T:
            admin = Admin([address], reactor=reactor)
            try:
                return await work(admin)
            finally:
                await admin.close()

        return self._ask(run)

    def _ask(self, question: Callable[[Any, tuple[str, int]], Coroutine[Any, Any, T]]) -> T:
        """Run ``question(reactor, native address)`` on the thread, while the broker serves, and return its result."""
        address = self.native_address

        def begin() -> Deferred[T]:
            if self._native != address:  # it went while this call waited for the thread
                raise CancelledError
            asking = Deferred.fromCoroutine(question(self._thread.reactor, address))
            self._questions.add(asking)
            return asking.addBoth(done, asking)

        def done(result: T, asking: Deferred[T]) -> T:
            self._questions.discard(asking)
            return result

        try:
            return self._thread.wait(begin)
        except (CancelledError, ReactorEnded):
            raise LogdError(f"the broker of {self.bootstrap_servers} was stopped in the meantime") from None


def kafka(*, process: bool = False, durable: bool = False, data: str | None = None, **settings: Any) -> KafkaBroker:
    """Return a broker for any client of Kafka, to be used by ``with`` or ``async with``, or by its methods.

    ::

        with logd.testing.kafka() as k:
            producer = confluent_kafka.Producer({"bootstrap.servers": k.bootstrap_servers})

    It runs on a thread of this process with a reactor of its own, or with ``process`` in a process of its own. Data are
    in memory, where the system has a file system for that, and not flushed. ``durable``: messages are flushed to the
    disk before they are acknowledged. ``data``: keep the data in this folder, which is not removed.

    ``settings`` are those of BrokerSettings, such as ``topics_partitions=4``, and of its groups for Kafka and security,
    such as ``kafka_producers_max=10``. Raises ConfigurationError for one that is not allowed. Needs the extra ``kafka``
    of logd.
    """
    return KafkaBroker(process=process, durable=durable, data=data, **settings)
