"""Seeds of mirrors between two clusters; ``LOGD_SIMULATIONS`` and ``LOGD_SIMULATION_START`` as in test_simulation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.batches import RawChunk
from logd.mirror.mirror import Mirror
from logd.mirror.partition_copy import PartitionCopy
from tests.simulation.mirroring.simulation import digest_of, simulate_mirror
from tests.simulation.violation import Violation

SEEDS = max(1, int(os.environ.get("LOGD_SIMULATIONS", "50")) // 5)
START = int(os.environ.get("LOGD_SIMULATION_START", "0"))
ROOT = Path(__file__).resolve().parents[3]
#: Seeds that a mutation may take to be found.
TRIES = 40


@contextmanager
def commit_before_the_target_has_it() -> Iterator[None]:
    """The mirror counts a chunk as handled once it is sent."""
    take = Mirror._take

    def taken(mirror: Mirror, stream: Any, copy: PartitionCopy, chunk: RawChunk) -> None:
        take(mirror, stream, copy, chunk)
        copy.done = chunk.next_position
        stream.handled(chunk, copy._entries.boundary)

    with mock.patch.object(Mirror, "_take", taken):
        yield


@contextmanager
def publish_pairs_without_a_commit() -> Iterator[None]:
    """The mirror publishes pairs of positions of what it has only sent."""
    settle = PartitionCopy._settle

    def settled(copy: PartitionCopy) -> None:
        settle(copy)
        for number in copy.positions:
            copy.positions[number] += copy.in_flight

    with mock.patch.object(PartitionCopy, "_settle", settled):
        yield


class MirroringTests(SynchronousTestCase):
    """Nothing acknowledged at the source is missing at the target, and order holds."""

    timeout = 3600

    def test_seeds(self) -> None:
        """Mirrors, brokers, trees and networks fail; in the end everything is there, and every pair is true."""
        harm: Counter[str] = Counter()
        for seed in range(START, START + SEEDS):
            try:
                harm.update(simulate_mirror(seed))
            except Violation as violation:
                self.fail(f"seed {seed}: {violation}")
        self.assertGreater(len(harm), 3)

    def test_a_seed_replays_exactly(self) -> None:
        """Also in another process, where strings hash otherwise, and with a client of the target that joins in."""
        digest = digest_of(2)
        command = "from tests.simulation.mirroring.simulation import digest_of; print(digest_of(2))"
        environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            [sys.executable, "-c", command], env=environment, cwd=ROOT, capture_output=True, timeout=600, check=False
        )
        self.assertEqual(ran.stdout.decode().strip(), digest, ran.stderr.decode())

    def test_a_commit_before_the_acknowledgement_is_found(self) -> None:
        """A mirror that is killed then leaves messages out."""
        self.find(commit_before_the_target_has_it)

    def test_pairs_that_are_too_far_are_found(self) -> None:
        """A group that goes on there would miss messages."""
        self.find(publish_pairs_without_a_commit)

    def find(self, mutation: Any) -> None:
        """Run seeds until one finds the mutation."""
        for seed in range(TRIES):
            with mutation():
                try:
                    simulate_mirror(seed)
                except Violation:
                    return
        self.fail(f"no seed below {TRIES} finds it")
