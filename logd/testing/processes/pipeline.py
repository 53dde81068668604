"""A pipeline of real processes: a live cluster of two brokers, a mirror, and an offline cluster of one broker."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from attrs import define, field

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.mirror import MirrorProcess

_LOGD = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')"]


@define(eq=False)
class PipelineCluster:
    """The addresses of one cluster, as commands find them in their environment."""

    brokers: list[BrokerProcess]
    registry: str
    #: Seconds that a command may take: generous, since Spark starts beside whatever else the machine does.
    patience: float = 600.0

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a command."""
        return {
            **os.environ,
            "LOGD_BROKER": ",".join(each.address for each in self.brokers),
            "LOGD_ZOOKEEPER": self.brokers[0].coordination,
            "LOGD_REGISTRY": self.registry,
        }

    def run(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command of logd to its end. Raises subprocess.TimeoutExpired."""
        return subprocess.run(
            [*_LOGD, *arguments],
            input=given,
            capture_output=True,
            env=self.environment,
            timeout=self.patience,
            check=False,
        )

    def begin(self, *arguments: str, errors: int | None = None) -> subprocess.Popen[bytes]:
        """Start a command of logd with pipes; ``errors`` as subprocess takes stderr."""
        return subprocess.Popen(
            [*_LOGD, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=self.environment,
        )


@define(eq=False)
class PipelineProcesses:
    """The servers of a pipeline, with data under ``folder``. A registry is served by a broker of each cluster."""

    folder: Path
    #: Seconds: the width of the audit's windows.
    window: float = 1.0
    tree: CoordinationProcess = field(init=False)
    live: PipelineCluster = field(init=False)
    offline: PipelineCluster = field(init=False)
    mirror: MirrorProcess = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Short sessions, so that a killed mirror's partitions go to its successor soon.
        self.tree = CoordinationProcess(str(self.folder / "live-tree"), ("--session-max", "4000"))
        pages = [free_port(), free_port()]
        self.live = PipelineCluster(
            [
                self._broker(f"live-{number}", None if number else pages[0], "--id", str(number), tree=self.tree.hosts)
                for number in range(2)
            ],
            f"http://127.0.0.1:{pages[0]}",
        )
        self.offline = PipelineCluster([self._broker("offline", pages[1])], f"http://127.0.0.1:{pages[1]}")
        source, target = self.tree.hosts, self.offline.brokers[0].coordination
        self.mirror = MirrorProcess(
            (
                *("--from", source, "--to", target, "--topics", "[^_].*"),
                *("--schemas", f"{self.live.registry},{self.offline.registry}"),
                *("--audit", "--audit-window", str(self.window), "--server", "mirror"),
            ),
            str(self.folder / "mirror.log"),
        )

    def _broker(self, name: str, pages: int | None, *options: str, tree: str | None = None) -> BrokerProcess:
        http = () if pages is None else (f"--http=tcp:{pages}:interface=127.0.0.1",)
        session = () if tree is not None else ("--set", "zookeeper.session.ms=4000")
        return BrokerProcess(str(self.folder / name), (*options, *http, *session), zookeeper=tree)

    @property
    def servers(self) -> list[BrokerProcess]:
        """All brokers."""
        return [*self.live.brokers, *self.offline.brokers]

    def start(self) -> Self:
        """Start all servers, side by side; the mirror waits for its clusters."""
        self.tree.start()
        with ThreadPoolExecutor() as side_by_side:
            for starting in [side_by_side.submit(each.start) for each in (*self.servers, self.mirror)]:
                starting.result()
        return self

    def stop(self) -> list[int]:
        """Stop all servers by SIGTERM, the mirror first; return their exit statuses."""
        return [self.mirror.stop(), *(each.stop() for each in self.servers), self.tree.stop()]

    def kill(self) -> None:
        """Kill the servers that still run."""
        for each in (self.mirror, *self.servers, self.tree):
            each.kill()
