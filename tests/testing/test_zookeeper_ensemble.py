"""Tests of logd.testing.processes.zookeeper: ensembles without a leader for a while."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import LogdError
from logd.testing.processes.zookeeper import ZooKeeperEnsemble


class ElectingServer:
    """A server that says in turn which part it has in the ensemble; the last of these stays."""

    process = object()

    def __init__(self, *modes: str) -> None:
        self._modes = list(modes)

    def mode(self) -> str:
        """See ZooKeeperProcess."""
        return self._modes.pop(0) if len(self._modes) > 1 else self._modes[0]


class EnsembleTests(SynchronousTestCase):
    """Two servers that run."""

    def ensemble(self, *servers: ElectingServer) -> ZooKeeperEnsemble:
        """Return an ensemble of these servers, which has no time to wait."""
        ensemble = ZooKeeperEnsemble(self.mktemp(), patience=0.0)
        both: list[Any] = list(servers)
        ensemble.servers = both
        return ensemble

    def test_an_election_is_waited_for(self) -> None:
        """The servers that run serve no request meanwhile."""
        later = ElectingServer("", "", "leader")
        ensemble = self.ensemble(ElectingServer("", "follower"), later)
        ensemble.patience = 60.0
        self.assertIs(ensemble.leader(), later)

    def test_an_ensemble_that_elects_nobody_is_an_error(self) -> None:
        """So it is when its time is over."""
        self.assertRaises(LogdError, self.ensemble(ElectingServer(""), ElectingServer("follower")).leader)
