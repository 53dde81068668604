"""Measures how long clients of a cluster cannot produce after the leader's death."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from statistics import median

from attrs import define, frozen

from logd.bench.scratch import scratch
from logd.bench.systems import process_group
from logd.bench.systems.load import PATIENCE_SECONDS
from logd.bench.systems.places import SystemPlaces
from logd.bench.systems.servers.clusters import BROKERS, Cluster
from logd.errors import LogdError

_MODULE = "logd.bench.systems.clients.failover"
_TOPIC = "failover"


@frozen
class Failover:
    """Seconds from the last acknowledgement before the leader's death to the first one after it."""

    system: str
    kills: int
    seconds_median: float
    seconds_worst: float


@define
class FailoverBench:
    """Kills the leader ``kills`` times in each kind of cluster. Blocks."""

    folder: str
    places: SystemPlaces
    kinds: Sequence[type[Cluster]]
    kills: int
    tell: Callable[[str], None] = lambda _: None

    def run(self) -> list[Failover]:
        """Return a result for each kind. Raises LogdError if a cluster does not recover."""
        return [self._measure(kind) for kind in self.kinds]

    def _measure(self, kind: type[Cluster]) -> Failover:
        with scratch(self.folder) as folder:
            cluster = kind(self.places, tempfile.mkdtemp(dir=folder))
            try:
                self.tell(f"{kind.name}: starts")
                cluster.start()
                cluster.create(_TOPIC)
                gaps = []
                for number in range(self.kills):
                    self.tell(f"{kind.name}: kill {number + 1} of {self.kills}")
                    gaps.append(self._gap(cluster))
            finally:
                cluster.stop()
        return Failover(kind.name, self.kills, round(median(gaps), 2), round(max(gaps), 2))

    def _gap(self, cluster: Cluster) -> float:
        addresses = ",".join(f"127.0.0.1:{port}" for port in cluster.ports)
        fetched = self.places.python_folder()
        folders = [*filter(None, sys.path), *([fetched] if fetched else [])]
        client = process_group.start(
            [sys.executable, "-m", _MODULE, addresses, _TOPIC, str(BROKERS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        )
        try:
            leader = "" if client.stdout is None else client.stdout.readline().strip()
            if leader:
                cluster.kill_node(int(leader))
            output, errors = client.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise LogdError(
                f"{cluster.name} took no messages for {PATIENCE_SECONDS:g} s after the death of its leader"
            ) from None
        finally:
            process_group.kill(client)
        if client.returncode:
            raise LogdError(f"the client of {cluster.name} failed: {errors.strip().splitlines()[-1:]}")
        cluster.start_node(int(leader))
        return float(output.strip())
