"""A real ensemble of three under the brokers, as two parts that may be harmed: the leader, and a follower."""

from __future__ import annotations

import subprocess
from pathlib import Path

from attrs import define, field

from logd.testing.processes.zookeeper import ZooKeeperEnsemble, ZooKeeperProcess
from tests.integration.chaos.world import Target


@define(eq=False)
class EnsembleRole:
    """The leader at the beginning of a fault, or a follower; the fault is healed at the same server."""

    ensemble: ZooKeeperEnsemble
    leads: bool
    _harmed: ZooKeeperProcess | None = field(default=None, init=False)

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The process to harm, chosen anew: ask at the beginning of a fault."""
        return self._pick().process

    def start(self) -> None:
        """Start the ended server again. The ensemble serves once two servers run."""
        if self._harmed is not None:
            self._harmed.start()

    def stop(self) -> int:
        """Stop the server in order; return its exit status."""
        return self._pick().stop()

    def kill(self) -> int:
        """SIGKILL the server."""
        return self._pick().kill()

    def _pick(self) -> ZooKeeperProcess:
        # The other role may have been harmed already: a server that has ended or stands still is not picked again.
        running = [server for server in self.ensemble.servers if _runs(server.pid)]
        fitting = [server for server in running if (server.mode() == "leader") is self.leads]
        self._harmed = (fitting or running)[0]  # while there is no leader, any will do
        return self._harmed


@define(eq=False)
class EnsembleTree:
    """The ensemble as a world's tree: it is started and killed as a whole, and harmed by its roles."""

    ensemble: ZooKeeperEnsemble
    process: None = None

    @property
    def hosts(self) -> str:
        """The addresses of all servers, as clients take them."""
        return self.ensemble.hosts

    def start(self) -> None:
        """Start all servers."""
        self.ensemble.start()

    def stop(self) -> int:
        """SIGKILL all servers and return 0: an ensemble has no common exit status."""
        self.kill()
        return 0

    def kill(self) -> int:
        """SIGKILL all servers."""
        self.ensemble.kill()
        return 0

    def targets(self) -> tuple[Target, ...]:
        """Return the parts that may be harmed; the leader three times, since its faults find most."""
        leader = Target("tree's leader", EnsembleRole(self.ensemble, True))
        return (leader, leader, leader, Target("tree's follower", EnsembleRole(self.ensemble, False)))


def _runs(pid: int) -> bool:
    """Return True for a process that exists and is not stopped; its state stands behind its name in brackets."""
    if not pid:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in ("T", "Z")
