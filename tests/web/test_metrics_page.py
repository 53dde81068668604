"""Tests of logd.web.metrics_page over real connections, and of the text that logd.broker.metrics writes itself."""

from __future__ import annotations

import gzip
from typing import Any

from attrs import frozen
from prometheus_client import Counter, generate_latest
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web.client import Agent, HTTPConnectionPool, readBody
from twisted.web.http_headers import Headers
from twisted.web.server import Site

from logd.broker.metrics.partitions import TURN_LOGS, PartitionMetrics
from logd.broker.metrics.registry import BrokerRegistry
from logd.web.metrics_page import MetricsPage


@frozen
class FakeLog:
    """The properties of a log that the metrics read."""

    topic: str
    partition: int
    first: int = 0
    end: int = 0
    visible_end: int = 0
    offline: str | None = None


LOGS = [FakeLog("clicks", 0, 7, 1 << 60, 12), FakeLog("clicks", 1, offline="damaged"), FakeLog("web.orders-v2_x", 12)]


def samples(families: Any) -> dict[tuple[str, str, str], float]:
    """Return the values of all samples by their name and labels."""
    return {
        (each.name, each.labels.get("topic", ""), each.labels.get("partition", "")): each.value
        for family in families
        for each in family.samples
    }


def kind(headers: Headers) -> str:
    """Return the content type."""
    (found,) = headers.getRawHeaders("content-type") or [""]
    return found


class PartitionTextTests(SynchronousTestCase):
    """The text of partitions."""

    def test_the_text_has_what_prometheus_client_would_write(self) -> None:
        """Each sample once, below the same head."""
        many: Any = [*LOGS, *(FakeLog("many", number, end=number) for number in range(5 * TURN_LOGS))]
        metrics = PartitionMetrics(lambda: many)
        ours, theirs = "".join(metrics.texts()), generate_latest(metrics).decode()
        self.assertEqual(samples(read_text(ours)), samples(read_text(theirs)))
        self.assertEqual(
            [line for line in ours.splitlines() if line.startswith("#")],
            [line for line in theirs.splitlines() if line.startswith("#")],
        )

    def test_no_part_takes_long(self) -> None:
        """Whatever the number of partitions, one turn writes so many lines at most."""
        many: Any = [FakeLog("many", number) for number in range(10_000)]
        parts = list(PartitionMetrics(lambda: many).texts())
        self.assertLessEqual(max(part.count("\n") for part in parts), 4 * TURN_LOGS)
        self.assertEqual(sum(part.count("\n") for part in parts), 4 * 10_000 + 8)


class MetricsPageTests(TestCase):
    """The page as a monitoring system reads it."""

    def setUp(self) -> None:
        """Serve a counter and the metrics of some logs."""
        logs: Any = LOGS
        self.registry = BrokerRegistry()
        self.registry.partitions = PartitionMetrics(lambda: logs)
        Counter("logd_messages_in", "Messages.", registry=self.registry).inc(42)
        net: Any = reactor
        self.port = net.listenTCP(0, Site(MetricsPage(net, self.registry)), interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.agent = Agent(net, pool=HTTPConnectionPool(net, persistent=False))

    async def get(self, headers: dict[str, str] | None = None, method: bytes = b"GET") -> tuple[Headers, bytes]:
        """Return the headers and the body of the page."""
        asked = Headers({name: [value] for name, value in (headers or {}).items()})
        response = await self.agent.request(method, f"http://127.0.0.1:{self.port.getHost().port}/".encode(), asked)
        self.assertEqual(response.code, 200)
        return response.headers, await readBody(response)

    async def test_the_text_of_prometheus(self) -> None:
        """Everything that the registry has, in one page."""
        headers, body = await self.get()
        self.assertTrue(kind(headers).startswith("text/plain"))
        found = samples(read_text(body.decode()))
        self.assertEqual(found, samples(read_text(generate_latest(self.registry).decode())))
        self.assertEqual(found["logd_partition_offline", "clicks", "1"], 1)

    async def test_open_metrics_compressed(self) -> None:
        """As Prometheus asks for it; the end of the page is its end."""
        headers, body = await self.get(
            {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
        )
        self.assertTrue(kind(headers).startswith("application/openmetrics-text"))
        text = gzip.decompress(body).decode()
        self.assertEqual(text.count("# EOF"), 1)
        read: Any = open_metrics.text_string_to_metric_families
        found = samples(read(text))
        self.assertEqual(found["logd_log_start_offset", "clicks", "0"], 7)
        self.assertEqual(found["logd_messages_in_total", "", ""], 42)

    async def test_the_head_alone(self) -> None:
        """HEAD is answered without a body."""
        _, body = await self.get(method=b"HEAD")
        self.assertEqual(body, b"")

    async def test_several_scrapes_at_a_time(self) -> None:
        """Each has the whole page."""
        answers = await gatherResults([Deferred.fromCoroutine(self.get()) for _ in range(5)])
        self.assertEqual(len({body.count(b"\n") for _, body in answers}), 1)

    async def test_an_error_is_logged_and_answered(self) -> None:
        """The next scrape has its page."""

        def fail() -> Any:
            raise ZeroDivisionError

        kept, self.registry.partitions = self.registry.partitions, PartitionMetrics(fail)
        response = await self.agent.request(b"GET", f"http://127.0.0.1:{self.port.getHost().port}/".encode())
        self.assertEqual(response.code, 500)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        await readBody(response)
        self.registry.partitions = kept
        await self.get()
