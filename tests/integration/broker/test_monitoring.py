"""The files for Prometheus and Grafana in contrib/, against a real broker's page, by the tools themselves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.kafka.test_listeners import PATIENCE, logd

ROOT = Path(__file__).parents[3]
RULES = ROOT / "contrib" / "prometheus"
DASHBOARD = ROOT / "contrib" / "grafana" / "logd.json"
#: Names of metrics in an expression, and labels that are matched or kept.
_NAMES = re.compile(r"\b((?:logd|process)_[a-z_]+)\b")
#: Metrics that come only with an error, a group or users, and are therefore not on this broker's page.
LATER = {
    *("logd_sets_refused_total", "logd_logins_total", "logd_group_lag_bytes", "logd_group_lag_seconds"),
    "logd_quota_held_seconds_total",
}


def expressions(value: Any) -> list[str]:
    """Return every expression in a dashboard."""
    if isinstance(value, dict):
        own = [value["expr"]] if isinstance(value.get("expr"), str) else []
        return own + [found for each in value.values() for found in expressions(each)]
    return [found for each in value for found in expressions(each)] if isinstance(value, list) else []


class PrometheusServer:
    """A real Prometheus that scrapes one broker every fifth of a second."""

    def __init__(self, program: str, folder: Path, broker_port: int) -> None:
        folder.mkdir()
        self.port = free_port()
        config = folder / "prometheus.yml"
        targets = f"[{{targets: ['127.0.0.1:{broker_port}']}}]"
        config.write_text(
            "global: {scrape_interval: 200ms}\n"
            f"scrape_configs:\n- {{job_name: logd, static_configs: {targets}}}\n"
            f"rule_files: ['{RULES / 'logd-rules.yml'}']\n"
        )
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [
                *(program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def query(self, expression: str) -> list[Any]:
        """Return the series of an expression; raise for one that Prometheus does not take."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
        return found

    def wait_for_samples(self, count: int) -> None:
        """Wait until the broker was scraped that often."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError):
                if self.query(f"count_over_time(up[5m]) >= {count}"):
                    return
            if time.monotonic() > deadline:
                raise AssertionError("Prometheus has scraped nothing")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._log.close()


class MonitoringTests(SynchronousTestCase):
    """The files of contrib/."""

    def tool(self, *arguments: str) -> str:
        """Run promtool; return what it prints."""
        program = shutil.which("promtool")
        if program is None:
            raise SkipTest("there is no promtool: apt-get install prometheus")
        ran = subprocess.run(
            [program, *arguments], cwd=RULES, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_promtool_accepts_the_rules_and_their_tests(self) -> None:
        """Each alert that is tested there fires when it should, and not before."""
        self.assertIn("SUCCESS", self.tool("check", "rules", "logd-rules.yml"))
        self.tool("check", "config", "prometheus.yml")
        self.assertIn("SUCCESS", self.tool("test", "rules", "logd-rules.test.yml"))

    def test_every_query_of_the_dashboard_has_an_answer(self) -> None:
        """A real Prometheus scrapes a real broker, and is asked what Grafana would ask."""
        program = shutil.which("prometheus")
        if program is None:
            raise SkipTest("there is no prometheus: apt-get install prometheus")
        port = free_port()
        broker = BrokerProcess(os.path.abspath(self.mktemp()), [f"--http=tcp:{port}:interface=127.0.0.1"]).start()
        self.addCleanup(broker.kill)
        where = (f"--broker={broker.address}", f"--zookeeper={broker.coordination}")
        logd("quotas", "set", "anonymous", "bytes.in=1G", where[1])
        logd("produce", "t", where[0], given="hello\n")
        logd("consume", "t", "--group=g", "--exit-at-end", *where)
        server = PrometheusServer(program, Path(os.path.abspath(self.mktemp())), port)
        self.addCleanup(server.stop)
        server.wait_for_samples(4)
        empty = set()
        for expression in expressions(json.loads(DASHBOARD.read_text())):
            asked = expression.replace("$instance", ".*").replace("$__rate_interval", "1m")
            if not server.query(asked):
                empty.add(expression)
        unanswered = {name for expression in empty for name in _NAMES.findall(expression)}
        self.assertLessEqual(unanswered, LATER)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/api/v1/rules", timeout=PATIENCE) as answer:
            groups = json.load(answer)["data"]["groups"]
        self.assertEqual({rule["health"] for group in groups for rule in group["rules"]} - {"ok", "unknown"}, set())

    def test_every_metric_that_is_asked_for_is_on_a_broker_s_page(self) -> None:
        """A name that is changed in the code has to be changed in the rules and the dashboard."""
        port = free_port()
        broker = BrokerProcess(os.path.abspath(self.mktemp()), [f"--http=tcp:{port}:interface=127.0.0.1"]).start()
        self.addCleanup(broker.kill)
        logd("produce", "t", f"--broker={broker.address}", given="hello\n")
        logd("consume", "t", "--exit-at-end", f"--broker={broker.address}")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            page = answer.read().decode()
        there = {line.split("{")[0].split(" ")[0] for line in page.splitlines() if not line.startswith("#")}
        texts = [*expressions(json.loads(DASHBOARD.read_text())), (RULES / "logd-rules.yml").read_text()]
        asked = {name for text in texts for name in _NAMES.findall(text)}
        self.assertGreater(len(asked), 12)
        self.assertEqual(asked - there - LATER, set())
        for line in (
            'logd_request_seconds_count{protocol="native",request="Metadata"}',
            "logd_visible_seconds_sum ",
            'logd_delivery_seconds_count{topic="t"} 1',
        ):
            self.assertIn(line, page)
