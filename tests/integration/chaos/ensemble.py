"""A real ensemble of three under the brokers, as two parts that may be harmed: whoever leads, and one that follows."""

from __future__ import annotations

import subprocess
from pathlib import Path

from attrs import define, field

from logd.testing.processes.zookeeper import ZooKeeperEnsemble, ZooKeeperProcess
from tests.integration.chaos.world import Target


@define(eq=False)
class EnsembleRole:
    """The server that leads when a fault begins, or one that does not; the fault is healed at the same server."""

    ensemble: ZooKeeperEnsemble
    leads: bool
    _harmed: ZooKeeperProcess | None = field(default=None, init=False)

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The process that is harmed now; asked for at the beginning of a fault."""
        return self._pick().process

    def start(self) -> None:
        """Start again what was ended. It serves once it and another one are there."""
        if self._harmed is not None:
            self._harmed.start()

    def stop(self) -> int:
        """End it in order; return its exit status."""
        return self._pick().stop()

    def kill(self) -> int:
        """SIGKILL it."""
        return self._pick().kill()

    def _pick(self) -> ZooKeeperProcess:
        # The other role may have been harmed already: what is ended or stands still is not picked again.
        running = [server for server in self.ensemble.servers if _runs(server.pid)]
        fitting = [server for server in running if (server.mode() == "leader") is self.leads]
        self._harmed = (fitting or running)[0]  # while nobody leads, any will do
        return self._harmed


@define(eq=False)
class EnsembleTree:
    """The ensemble as a world's tree: it is started and killed as a whole, and harmed by its roles."""

    ensemble: ZooKeeperEnsemble
    process: None = None

    @property
    def hosts(self) -> str:
        """Where its clients connect."""
        return self.ensemble.hosts

    def start(self) -> None:
        """Start all."""
        self.ensemble.start()

    def stop(self) -> int:
        """End all; none says how."""
        self.kill()
        return 0

    def kill(self) -> int:
        """SIGKILL all."""
        self.ensemble.kill()
        return 0

    def targets(self) -> tuple[Target, ...]:
        """What may be harmed of it; the leader, which is worth most, three times as often as others."""
        leader = Target("tree's leader", EnsembleRole(self.ensemble, True))
        return (leader, leader, leader, Target("tree's follower", EnsembleRole(self.ensemble, False)))


def _runs(pid: int) -> bool:
    """Whether there is such a process and it is not stopped; its state stands behind its name in brackets."""
    if not pid:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in ("T", "Z")
