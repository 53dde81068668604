"""What Prometheus and Grafana are given in contrib/, against a real broker's page, by the tools themselves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.kafka.test_listeners import logd

ROOT = Path(__file__).parents[3]
RULES = ROOT / "contrib" / "prometheus"
DASHBOARD = ROOT / "contrib" / "grafana" / "logd.json"
#: Names of metrics in an expression, and labels that are matched or kept.
_NAMES = re.compile(r"\b((?:logd|process)_[a-z_]+)\b")
#: Metrics that come only with an error, a group or users, and are therefore not on this broker's page.
LATER = {"logd_sets_refused_total", "logd_logins_total", "logd_group_lag_bytes", "logd_group_lag_seconds"}


def expressions(value: Any) -> list[str]:
    """Return every expression in a dashboard."""
    if isinstance(value, dict):
        own = [value["expr"]] if isinstance(value.get("expr"), str) else []
        return own + [found for each in value.values() for found in expressions(each)]
    return [found for each in value for found in expressions(each)] if isinstance(value, list) else []


class MonitoringTests(SynchronousTestCase):
    """The files of contrib/."""

    def tool(self, *arguments: str) -> str:
        """Run promtool; return what it prints."""
        program = shutil.which("promtool")
        if program is None:
            raise SkipTest("there is no promtool: apt-get install prometheus")
        ran = subprocess.run([program, *arguments], cwd=RULES, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_promtool_accepts_the_rules_and_their_tests(self) -> None:
        """Each alert that is tested there fires when it should, and not before."""
        self.assertIn("SUCCESS", self.tool("check", "rules", "logd-rules.yml"))
        self.tool("check", "config", "prometheus.yml")
        self.assertIn("SUCCESS", self.tool("test", "rules", "logd-rules.test.yml"))

    def test_every_metric_that_is_asked_for_is_on_a_broker_s_page(self) -> None:
        """A name that is changed in the code has to be changed in the rules and the dashboard."""
        port = free_port()
        broker = BrokerProcess(os.path.abspath(self.mktemp()), [f"--http=tcp:{port}:interface=127.0.0.1"]).start()
        self.addCleanup(broker.kill)
        logd("produce", "t", f"--broker={broker.address}", given="hello\n")
        logd("consume", "t", "--exit-at-end", f"--broker={broker.address}")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
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
