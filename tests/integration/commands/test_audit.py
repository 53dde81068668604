"""``logd audit`` over a real broker: producers that are killed and that retry, and a message removed by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from logd.testing.processes.python_process import start_python
from tests.integration.commands.rig import PATIENCE, CliTestCase, SharedBrokerTestCase

#: Seconds: narrow, so that a test need not wait for a window's end.
WINDOW = "0.05"
WINDOWS = ("--audit", "--audit-window", WINDOW)


class AuditTestCase(CliTestCase):
    """Producers of servers web1 and web2, and a reader."""

    def produce(self, server: str, lines: int) -> None:
        """Produce some lines from a server."""
        given = b"".join(b"%s line %04d\n" % (server.encode(), number) for number in range(lines))
        self.logd("produce", "t", *WINDOWS, "--server", server, given=given)

    def consume(self) -> int:
        """Read the topic once, audited; return the number of messages."""
        return len(self.logd("consume", "t", "--exit-at-end", *WINDOWS).splitlines())

    def audit(self, *options: str, status: int = 0) -> list[dict[str, Any]]:
        """Return the verdicts on what was consumed."""
        output = self.logd("audit", "--window", WINDOW, "--grace", "0", "--json", *options, status=status)
        return [found for found in map(json.loads, output.splitlines()) if found["tier"] == "consumed"]

    def totals(self, verdicts: list[dict[str, Any]]) -> dict[str, int]:
        """Return the sums over all windows."""
        return {
            name: sum(verdict[name] for verdict in verdicts)
            for name in ("expected", "seen", "missing", "duplicated", "unaccounted")
        }


class AuditTests(SharedBrokerTestCase, AuditTestCase):
    """Messages that are removed, clients that are killed, and ways to ask."""

    def test_nothing_is_missing_until_a_message_is_removed(self) -> None:
        """The server and the window that lack one are named, and the command ends with status 1."""
        self.logd("audit", status=1)
        self.assertIn("no audited client", self.errors)
        for server in ("web1", "web2", "web1"):
            self.produce(server, 100)
        (segment,) = Path(self.broker.data, "t-0").glob("*.log")
        at = segment.read_bytes().index(b"web2 line 0042")
        with open(segment, "r+b") as file:
            os.pwrite(file.fileno(), b"X", at)
        self.logd("repair", "--broker", self.broker.address, "t", "0", "--yes")
        self.assertEqual(self.consume(), 299)
        metrics, parquet = Path(self.mktemp()), Path(self.mktemp())
        verdicts = self.audit("--metrics", str(metrics), "--parquet", str(parquet), status=1)
        self.assertEqual(
            self.totals(verdicts), {"expected": 300, "seen": 299, "missing": 1, "duplicated": 0, "unaccounted": 0}
        )
        (failed,) = [verdict for verdict in verdicts if verdict["missing"]]
        self.assertEqual((failed["topic"], failed["differences"][0]["origin"]), ("t", "web2"))
        self.assertRegex(self.errors, r"topic t, window \S+Z, consumed: 1 message from web2 missing")
        self.assertRegex(metrics.read_text(), r'logd_audit_missing_messages\{.*tier="consumed".*\} 1.0')
        from pyarrow import parquet as reader

        self.assertEqual(sum(reader.read_table(parquet).column("missing").to_pylist()), 1)
        self.assertEqual(self.audit("--topic", "other"), [])
        self.assertEqual(self.audit("--to", "2011-11-11T00:00:00Z"), [])

    def test_a_producer_that_was_killed_is_unaccounted(self) -> None:
        """Its messages are no loss and nothing twice: it had said that it began to count."""
        self.produce("web2", 50)
        process = start_python(
            [sys.executable, "-c", _DYING, self.broker.address], stdout=subprocess.PIPE, env=self.env
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), b"acknowledged\n")
        process.kill()
        process.wait(PATIENCE)
        self.assertEqual(self.consume(), 57)
        self.assertEqual(
            self.totals(self.audit()), {"expected": 50, "seen": 57, "missing": 0, "duplicated": 0, "unaccounted": 7}
        )

    def test_follow_goes_on_with_each_tier_that_is_judged(self) -> None:
        """A group's counts come after those of the producers, and are told once; a signal ends it."""
        self.produce("web1", 10)
        process = self.begin("audit", "--follow", "--json", "--window", WINDOW, "--grace", "0")
        self.addCleanup(process.kill)
        assert process.stdout is not None
        produced = json.loads(process.stdout.readline())
        self.assertEqual((produced["tier"], produced["state"]), ("produced", "complete"))
        self.consume()
        consumed = produced
        while consumed["tier"] == "produced":
            consumed = json.loads(process.stdout.readline())
        self.assertEqual((consumed["tier"], consumed["missing"]), ("consumed", 0))
        process.terminate()
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 143)

    def test_the_brokers_are_found_through_the_tree(self) -> None:
        """Without the address of any; a tree that does not answer, or has no broker, is named."""
        self.produce("web1", 10)
        tree = self.broker.coordination
        del self.env["LOGD_BROKER"]
        self.logd("consume", "t", "--group", "g", "--zookeeper", tree, "--exit-at-end", *WINDOWS)
        self.assertEqual(self.totals(self.audit("--zookeeper", tree))["expected"], 10)
        self.audit("--zookeeper", f"{tree}/elsewhere", status=3)
        self.assertIn("no broker is live", self.errors)


class KilledBrokerTests(AuditTestCase):
    """An audit across the death of a broker."""

    def test_a_broker_that_is_killed_loses_nothing(self) -> None:
        """The producer sends again what was not acknowledged, and claims each message once."""
        process = self.begin("produce", "t", *WINDOWS, "--server", "web1", "--json")
        assert process.stdin is not None
        process.stdin.write(b"line\n" * 2000)
        process.stdin.flush()
        self.logd("consume", "t", "--max", "1", "--quiet")
        self.broker.kill()
        process.stdin.write(b"line\n" * 2000)
        process.stdin.flush()
        self.broker.start()
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(json.loads(output)["acknowledged"], 4000)
        seen = self.consume()
        totals = self.totals(self.audit())
        self.assertEqual((totals["missing"], totals["unaccounted"]), (0, 0), totals)
        self.assertEqual((totals["expected"], totals["seen"], totals["duplicated"]), (4000, seen, seen - 4000))


#: A program whose clock stands still, so that its window does not end before it is killed.
_DYING = """\
import sys
from logd.client.blocking.clients import Producer
producer = Producer(sys.argv[1], audit=True, audit_window=0.05, server="web1", time_ms=lambda: 1_320_969_600_000)
for number in range(7):
    producer.send("t", b"doomed").wait(30)
    producer.flush()
print("acknowledged", flush=True)
sys.stdin.read()
"""
