"""Tests of the shapes of load: workloads, payloads, and what the options of a command make of them."""

from __future__ import annotations

import os
import zlib

import click
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logd.bench.rates.payloads import payloads
from logd.bench.rates.process_usage import UsageMeter, memory_bytes
from logd.bench.rates.produce import WorkloadSender, producer_settings
from logd.bench.rates.workload import Workload
from logd.cli.bench.shapes import workloads
from logd.errors import ConfigurationError


class WorkloadTests(SynchronousTestCase):
    """``Workload``."""

    def test_values_that_make_no_sense_are_refused(self) -> None:
        """The error names the value and what is allowed."""
        wrongs = (
            {"size": 0},
            {"connections": 0},
            {"call": "shout"},
            {"compression": "rar"},
            {"format": "x"},
            {"compression": "lz4"},
            {"loop": "trio"},
            {"call": "send"},
        )
        for wrong in wrongs:
            with self.assertRaises(ConfigurationError, msg=str(wrong)):
                Workload(10, **{"batch": 50, **wrong})  # type: ignore[arg-type]  # wrong on purpose

    def test_many_connections_share_one_bound_of_memory(self) -> None:
        """A thousand producers with a user's default of 32 MiB each would fill the machine."""
        one, many = (producer_settings(Workload(10, connections=count)) for count in (1, 1000))
        self.assertEqual(one["buffer_bytes"], 8 << 20)
        self.assertLessEqual(many["buffer_bytes"], 64 << 10)

    def test_only_the_shape_changes_a_users_defaults(self) -> None:
        """No figure is tuned: settings beside acks and the buffer appear only where the shape needs them."""
        self.assertEqual(set(producer_settings(Workload(10))), {"acks", "buffer_bytes"})
        self.assertEqual(producer_settings(Workload(10, 1_000_000))["message_bytes"], 2_000_000)
        self.assertEqual(producer_settings(Workload(10, format="batch"))["format"], "batch")

    def test_the_producer_compresses_batches_and_sets_compress_themselves(self) -> None:
        """A set knows the compressions of wrappers alone, so lz4 is a setting."""
        batches, plain = Workload(10, format="batch", compression="lz4"), Workload(10, compression="gzip")
        self.assertEqual(producer_settings(batches)["compression"], "lz4")
        self.assertNotIn("compression", producer_settings(plain))
        (one,), (other,) = (WorkloadSender(None, "topic", each, 0).contents() for each in (batches, plain))
        self.assertEqual((one.compression, other.compression), ("none", "gzip"))


class PayloadTests(SynchronousTestCase):
    """``payloads``."""

    def test_they_differ_and_have_the_size(self) -> None:
        """Equal ones would let compression find what it never finds."""
        for size in (10, 200, 5000):
            made = payloads(50, size)
            self.assertEqual({len(each) for each in made}, {size})
            self.assertGreater(len(set(made)), 40)
            self.assertEqual(made, payloads(50, size))

    def test_they_compress_as_logs_do(self) -> None:
        """To between a fifth and a half."""
        text = b"".join(payloads(50, 200))
        self.assertTrue(0.2 < len(zlib.compress(text)) / len(text) < 0.5)


class CombinationTests(SynchronousTestCase):
    """``workloads``."""

    def test_each_combination_is_a_workload(self) -> None:
        """Of two sizes and three numbers of partitions there are six."""
        made = workloads(None, (10, 1_000_000), ("none",), (1, 10, 100), (1,))
        self.assertEqual(len(made), 6)
        self.assertEqual(
            {(each.size, each.batch, each.messages) for each in made}, {(10, 50, 2_000_000), (1_000_000, 1, 1000)}
        )

    def test_one_message_a_call_makes_batches_of_one(self) -> None:
        """And each connection makes one call at least."""
        (made,) = workloads(5, (200,), ("none",), (1,), (40,), call="send")
        self.assertEqual((made.batch, made.messages, made.call), (1, 40, "send"))

    def test_a_compression_that_the_format_has_not_is_an_error_of_the_command(self) -> None:
        """It says which format has it."""
        (made,) = workloads(5, (200,), ("lz4",), (1,), (1,), format="batch")
        self.assertEqual((made.compression, made.format), ("lz4", "batch"))
        error = self.assertRaises(click.UsageError, workloads, 5, (200,), ("gzip", "lz4"), (1,), (1,), format="plain")
        words = "--compression lz4 needs --format batch; --format plain has none, gzip, snappy, zstd"
        self.assertEqual(error.message, words)

    def test_both_loops_have_the_same_load(self) -> None:
        """One after the other, in each round."""
        made = workloads(5, (200,), ("none",), (1,), (1,), loop=("reactor", "asyncio"))
        self.assertEqual([each.loop for each in made], ["reactor", "asyncio"])
        self.assertEqual(evolve(made[1], loop="reactor"), made[0])


class UsageTests(SynchronousTestCase):
    """``UsageMeter`` and ``memory_bytes``, of this process."""

    def test_work_is_seen(self) -> None:
        """Processor time is counted in hundredths of a second."""
        meter = UsageMeter([os.getpid()])
        used = meter.read()
        rounds = 0
        while used.processor_seconds < 0.05 and rounds < 10_000:
            sum(range(10_000))
            rounds += 1
            used = meter.read()
        self.assertGreaterEqual(used.processor_seconds, 0.05)
        self.assertGreater(used.peak_bytes, 1 << 20)
        self.assertGreater(memory_bytes(os.getpid(), "VmRSS"), 1 << 20)

    def test_a_process_that_has_gone_counts_nothing(self) -> None:
        """A broker may end while the bench reads its figures."""
        self.assertEqual(UsageMeter([1 << 30]).read().processor_seconds, 0)
