"""``logd bench`` with small counts: the shapes work, and the results have their figures; the values do not matter."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.security.noisy_neighbour import NOISES
from logd.bench.security.security_cost import MEASURES, WORKS
from logd.testing.processes.python_process import run_python, start_python

ROOT = Path(__file__).resolve().parents[3]
#: Clients on Twisted's reactor, then on asyncio.
LOOPS = ["--loop", "reactor", "--loop", "asyncio"]
#: Seconds until a command is given up as hanging. They compute: that of peers takes 30 s of a processor, and may have
#: to share it with ten others.
HANGS = 900
LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]


class BenchTests(SynchronousTestCase):
    """The commands, each in a process."""

    def run_bench(self, *words: str) -> Any:
        """Run ``logd bench`` and return its JSON; no file may be left."""
        folder = Path(self.mktemp())
        folder.mkdir()
        done = run_python(
            [*LOGD, "bench", *words, "--json", "--folder", str(folder)],
            capture_output=True,
            timeout=HANGS,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(folder.iterdir()), [])
        return json.loads(done.stdout)

    def test_ctrl_c_ends_a_bench_and_leaves_nothing(self) -> None:
        """A terminal sends SIGINT to the broker of the bench as well, which is then gone while the bench tidies up."""
        for command in ("produce", "consume"):
            folder = Path(self.mktemp())
            folder.mkdir()
            bench = start_python(
                [*LOGD, "bench", command, "--messages", "100000000", "--folder", str(folder)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
            try:
                self.wait_for_messages(bench, folder)
                os.killpg(bench.pid, signal.SIGINT)
                output = bench.communicate(timeout=HANGS)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(bench.pid, signal.SIGKILL)
            self.assertEqual((bench.returncode, *output), (128 + signal.SIGINT, b"", b""))
            self.assertEqual(list(folder.iterdir()), [])

    def wait_for_messages(self, bench: subprocess.Popen[Any], folder: Path) -> None:
        """Wait until the broker of a bench has written messages."""
        deadline = time.monotonic() + HANGS
        while not any(each.stat().st_size for each in folder.glob("logd-bench-*/data/bench-*/*.log")):
            self.assertIs(bench.poll(), None, "it has ended")
            self.assertLess(time.monotonic(), deadline, "nothing was written")
            time.sleep(0.01)

    def test_produce_measures_every_combination_in_every_round(self) -> None:
        """One message a call, over one and three partitions, one and four connections."""
        words = "--rounds 2 --messages 400 --call send --acks -1 --partitions 1 --partitions 3 --connections 1"
        results = self.run_bench("produce", *words.split(), "--connections", "4")
        self.assertEqual(
            [(each["partitions"], each["connections"]) for each in results], [(1, 1), (1, 4), (3, 1), (3, 4)]
        )
        for each in results:
            self.assertEqual((each["messages"], each["call"], len(each["rounds"])), (400, "send", 2))
            self.assertGreater(each["messages_per_second"], 0)
            self.assertGreaterEqual(each["log_bytes_per_message"], 200)
            self.assertGreater(each["broker_peak_megabytes"], 1)
            self.assertIn("bytes from a socket", each["meaning"])

    def test_acks_0_and_large_messages(self) -> None:
        """A megabyte is more than the broker takes by default."""
        result = self.run_bench(*["produce", "--rounds", "1", "--messages", "3", "--acks", "0", "--size", "1000000"])
        self.assertEqual(result["batch"], 1)
        self.assertEqual(result["log_bytes_per_message"] // 1000, 1000)

    def test_consume_reads_what_is_there(self) -> None:
        """Compressed, in batches, with more readers than partitions: each reads the whole of its partition.

        Partition 0 also has the first call of the producer, which is not measured.
        """
        words = "--rounds 1 --messages 600 --batches --compression gzip --partitions 2 --connections 4"
        result = self.run_bench("consume", *words.split())
        self.assertEqual((result["bench"], result["messages"]), ("consume batches", 2 * 600 + 2 * 300))
        self.assertLess(result["log_bytes_per_message"], 150)

    def test_the_messages_may_travel_in_batches(self) -> None:
        """A message in a batch shares its head with the others, so it takes less room in the log than an entry."""
        for command in ("produce", "consume"):
            words = f"{command} --rounds 1 --messages 1000 --size 10 --format batch"
            result = self.run_bench(*words.split())
            self.assertEqual(result["format"], "batch")
            self.assertLess(result["log_bytes_per_message"], 19)

    def test_clients_of_asyncio_run_beside_those_of_the_reactor(self) -> None:
        """With the same load: each way to send and to read, and a compression that only batches have."""
        for call in ("send", "publish"):
            words = f"produce --rounds 1 --messages 400 --connections 2 --call {call}"
            results = self.run_bench(*words.split(), *LOOPS)
            self.assertEqual([each["loop"] for each in results], ["reactor", "asyncio"])
            self.assertEqual([each["messages"] for each in results], [400, 400])
            self.assertGreater(min(each["log_bytes_per_message"] for each in results), 200)
        for form in ("", "--raw"):
            words = f"consume --rounds 1 --messages 600 --format batch --compression lz4 {form}"
            results = self.run_bench(*words.split(), *LOOPS)
            self.assertEqual([each["loop"] for each in results], ["reactor", "asyncio"])
            self.assertEqual([each["messages"] for each in results], [1000, 1000])  # a set of 500, and the first call
            self.assertLess(max(each["log_bytes_per_message"] for each in results), 150)

    def test_latency_against_rate_has_the_disk_beside_it(self) -> None:
        """Each rate has its row, whether it was reached or not."""
        result = self.run_bench(*["latency", "--rounds", "2", "--rate", "50", "--rate", "200", "--seconds", "0.2"])
        self.assertEqual([each["rate"] for each in result["rates"]], [50, 200])
        for each in result["rates"]:
            self.assertLessEqual(each["delivered_ms_median"], each["delivered_ms_99_9"])
            self.assertGreater(each["acknowledged_ms_median"], 0)
            low, high = each["spread"].get("ratio_to_sync", (each["ratio_to_sync"],) * 2)
            self.assertEqual(sorted(each["rounds"]), [low, high])
        self.assertGreater(result["disk"]["sync_ms_99"], 0)
        self.assertIn(f"Ratio {result['rates'][0]['ratio_to_sync']:g}: at ", result["meaning"])

    def test_retained_data_has_a_row_for_each_size(self) -> None:
        """The smallest log first, as given."""
        words = "retained --rounds 1 --mb 1 --mb 4 --segment-mb 1 --messages 500"
        result = self.run_bench(*words.split())
        self.assertEqual([each["retained_megabytes"] for each in result["rates"]], [1, 4])
        for each in result["rates"]:
            self.assertGreater(each["produced_per_second"], 0)
        small, large = result["rates"]
        self.assertEqual((small["produced_ratio"], small["consumed_ratio"]), (1, 1))
        self.assertGreater(large["segments"], small["segments"])
        self.assertIn("With 4 times the data", result["meaning"])

    def test_mirror_measures_a_rate_and_a_latency(self) -> None:
        """Between two clusters of its own, beside raw consuming."""
        words = "mirror --rounds 1 --messages 20000 --latency-messages 5"
        result = self.run_bench(*words.split())
        self.assertEqual((result["bench"], result["messages"], result["latency_messages"]), ("mirror", 20_000, 5))
        for name in ("mirrored_megabytes_per_second", "ratio_to_consumed", "delivered_ms_median", "processors"):
            self.assertGreater(result[name], 0, name)
        self.assertIn(
            "the processor time of mirroring" if not result["mirror_processor_ms_per_megabyte"] else "three processes",
            result["meaning"],
        )

    def test_audit_measures_the_cost_of_counting(self) -> None:
        """For each call, with and without, in turn."""
        words = "audit --rounds 1 --messages 500 --call set --call publish"
        result = self.run_bench(*words.split())
        self.assertEqual([each["call"] for each in result["calls"]], ["set", "publish"])
        for each in result["calls"]:
            self.assertGreater(each["audited_processor_ns"], 0)

    def test_security_measures_a_broker_with_and_without(self) -> None:
        """A producer and a consumer, at a broker that is open and that has users, rules and quotas, in turn."""
        rows = self.run_bench(*["security", "--rounds", "1", "--messages", "2000"])["rows"]
        self.assertEqual([(each["work"], each["measure"]) for each in rows], list(product(WORKS, MEASURES)))
        for each in rows:
            self.assertGreater(min(each["open_ns"], each["secured_ns"]), 0)

    def test_quotas_measures_a_quiet_client_beside_noise(self) -> None:
        """Noise that fetches and noise that produces, each held by its quota and not."""
        rows = self.run_bench(*["quotas", "--rounds", "1", "--messages", "2000", "--connections", "2"])["rows"]
        self.assertEqual(
            [(each["noise"], each["work"]) for each in rows], list(product(NOISES, ("produce", "consume")))
        )
        for each in rows:
            self.assertGreater(each["noise_without_quota"], 2 * each["noise_with_quota"])

    def test_peers_with_logd_alone(self) -> None:
        """The figures are written as JSON and Markdown, and drawn where matplotlib is installed."""
        out = Path(self.mktemp())
        out.mkdir()
        words = "peers --system logd --rounds 1 --messages 500 --rate 100"
        result = self.run_bench(*words.split(), "--out", str(out))
        rows = [each for each in result["figures"] if each["client"] == "logd"]
        parts = [(each["part"], each.get("batch"), each.get("acks")) for each in rows]
        rates = [("produce", batch, acks) for batch in (1, 50, 0) for acks in (1, -1)]
        read = [("consume", batch, None) for batch in (1, 50, 0)]
        self.assertEqual(set(parts), {*rates, *read, ("produce", 1, 0), ("latency", None, None)})
        self.assertEqual(len(parts), len(set(parts)))
        self.assertEqual({each["messages"] // 10 for each in rows if each["part"] != "latency"}, {50})
        self.assertEqual(result["missing"], [])
        for each in result["figures"]:
            if each["part"] == "produce":
                self.assertGreaterEqual(each["disk_bytes_per_message"], 200)
        self.assertEqual(json.loads((out / "peers.json").read_text()), result)
        self.assertIn("| logd | logd | produce | 50 | -1 | 500 | ", (out / "peers.md").read_text())
