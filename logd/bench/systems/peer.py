"""A system that the bench starts, loads and stops, and the clients that load it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import ClassVar

from attrs import define, field, frozen

from logd.bench.systems import process_group
from logd.bench.systems.places import SystemPlaces
from logd.errors import LogdError
from logd.testing.processes.broker import free_port

#: Seconds in which a system must answer after its start, and end after SIGTERM.
START_SECONDS = 240.0
STOP_SECONDS = 60.0
_POLL_SECONDS = 0.05


@frozen
class PeerClient:
    """A way to load a system from Python: ``module`` has ``produce`` and ``consume``, see client_main.

    ``package`` is the Python package that it imports, and ``distribution`` its name for pip. ``batches`` are the values
    of Load.batch that it supports, messages to a request, 0 for its defaults; empty for all. ``paced``: it
    supports a rate. ``acks`` are the values of Load.acks that it offers; empty where that is no choice.
    """

    name: str
    module: str
    package: str = "logd"
    distribution: str = "logd"
    batches: tuple[int, ...] = (1, 50, 0)
    paced: bool = False
    consumes: bool = True
    acks: tuple[int, ...] = ()
    #: Measured with the most messages, however long they take: for one that compiles itself while it runs.
    whole: bool = False
    #: Words for the module, such as the kind of call.
    option: str = ""

    def missing(self, places: SystemPlaces) -> str:
        """Return the reason why this client cannot be used here; empty if it can."""
        if find_spec(self.package) is not None or places.python_package(self.package):
            return ""
        return f"the Python package {self.distribution} is not installed (pip install {self.distribution}, or --fetch)"


@define(eq=False)
class Peer(ABC):
    """One system, with its data in ``folder``; ``places`` says where its program is. All methods block."""

    name: ClassVar[str]
    #: The part of ``fetch`` that brings it, if any.
    fetched: ClassVar[str] = ""
    #: The durability of an acknowledged message, in a sentence.
    durability: ClassVar[str]
    clients: ClassVar[tuple[PeerClient, ...]]

    places: SystemPlaces
    folder: str
    port: int = field(factory=free_port)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @classmethod
    @abstractmethod
    def missing(cls, places: SystemPlaces) -> str:
        """Return the reason why this system cannot run on this machine; empty if it can."""

    @abstractmethod
    def launch(self) -> None:
        """Start the system's processes with ``run``, without waiting for them."""

    def create(self, topic: str) -> None:
        """Create the log, queue or stream that a client needs for ``topic``. By default clients do that."""
        return

    def option(self, client: PeerClient) -> str:
        """Return the words for the module of a client."""
        return client.option

    @property
    def version(self) -> str:
        """Return the version, once the system runs; empty if it does not tell."""
        return ""

    @property
    def data(self) -> str:
        """Return the folder of the system's data."""
        return os.path.join(self.folder, "data")

    @property
    def processes(self) -> list[int]:
        """Return the ids of the system's processes: the first one and all that it started."""
        return [] if self.process is None else [self.process.pid, *process_group.children(self.process.pid)]

    def start(self) -> None:
        """Start the system, and wait until it accepts connections.

        Raises LogdError, with the end of its log, if it ends or does not accept any within START_SECONDS.
        """
        os.makedirs(self.data, exist_ok=True)
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not self.serves():
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                what = "its process ended" if ended else f"it did not answer within {START_SECONDS:g} s"
                text = self.end_of_log()
                self.stop()
                raise LogdError(f"{self.name} did not start: {what}: {text}")
            time.sleep(_POLL_SECONDS)

    def serves(self) -> bool:
        """Return whether the system accepts connections now."""
        return accepts(self.port)

    def stop(self) -> None:
        """Stop the system, and every process that it has started."""
        process, self.process = self.process, None
        if process is None:
            return
        below = process_group.children(process.pid)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        process_group.kill(process)
        for each in below:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def stored_bytes(self) -> int:
        """Return the bytes that the system's files take on the disk, without holes."""
        total = 0
        for where, _, names in os.walk(self.data):
            for name in names:
                try:
                    total += os.lstat(os.path.join(where, name)).st_blocks * 512
                except OSError:
                    continue
        return total

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start ``command`` as the system's process, with its output in the log."""
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = process_group.start(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
            )

    def call(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a command to its end and return its output. Raises LogdError with the end of the output if it fails."""
        return process_group.call(command, self.folder, environment)

    def end_of_log(self) -> str:
        """Return the end of the system's log, or the reason why the log cannot be read."""
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
                return log.read()[-1500:]
        except OSError as error:
            return str(error)


def accepts(port: int) -> bool:
    """Return whether something accepts connections at this port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
