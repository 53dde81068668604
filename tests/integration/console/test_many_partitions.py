"""The pages and the metrics of a broker with many partitions: how long each takes, and how long others wait for it.

``LOGD_MANY_PARTITIONS=10000`` says how many; the figures are printed, and judged. Without it there are a few hundred,
and only that the pages come is judged.
"""

from __future__ import annotations

import http.client
import os
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.kafka.test_listeners import logd
from tests.integration.peers import PATIENCE

VARIABLE = "LOGD_MANY_PARTITIONS"
FEW = 300
TOPICS = 10
#: Seconds: the median of a page's times, and the longest that another client waits.
PAGE_SECONDS, WAIT_SECONDS = 0.1, 0.1
PAGES = (
    *("/console", "/console/topics", "/console/topics?sort=size", "/console/topics/t3", "/console/groups"),
    *("/console/topics/t3/messages", "/console/history.json", "/console/live", "/console/live/topics"),
    *("/metrics", "/health"),
)


class ManyPartitionsTests(SynchronousTestCase):
    """One broker with ten topics."""

    def setUp(self) -> None:
        """Start the broker, and make the topics."""
        self.wanted = int(os.environ.get(VARIABLE, "0"))
        self.port = free_port()
        options = [f"--http=tcp:{self.port}:interface=127.0.0.1"]
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()), options).start()
        self.addCleanup(self.broker.kill)
        each = (self.wanted or FEW) // TOPICS
        for number in range(TOPICS if self.wanted else 4):
            logd("topics", "create", f"t{number}", f"--partitions={each}", f"--broker={self.broker.address}")

    def read(self, page: str) -> float:
        """Read a page, or the first event of a stream; return the seconds."""
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{page}", timeout=PATIENCE) as answer:
            if page.startswith("/console/live"):
                while b"event: live" not in (line := answer.readline()):
                    self.assertTrue(line, "the stream has ended")
            else:
                answer.read()
        return time.perf_counter() - began

    @contextmanager
    def other(self) -> Iterator[list[float]]:
        """Have another client ask for little again and again; give the times that its answers took."""
        waited: list[float] = []
        ended = Event()

        def ask() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            while not ended.wait(0.001):
                began = time.perf_counter()
                connection.request("GET", "/console/static/icon.svg")
                connection.getresponse().read()
                waited.append(time.perf_counter() - began)
            connection.close()

        thread = Thread(target=ask)
        thread.start()
        try:
            yield waited
        finally:
            ended.set()
            thread.join()

    def test_pages_come_soon_and_hold_up_nobody(self) -> None:
        """Each page several times; the first one may still load templates."""
        late = []
        for page in PAGES:
            self.read(page)
            if not self.wanted:
                continue
            with self.other() as waited:
                seconds = statistics.median(self.read(page) for _ in range(9))
                time.sleep(0.05)
            text = f"{page}: {1000 * seconds:.1f} ms; others waited {1000 * max(waited):.1f} ms at most"
            print(text, file=sys.stderr)
            if seconds > PAGE_SECONDS or max(waited) > WAIT_SECONDS:
                late.append(text)
        self.assertEqual(late, [])
