"""Disturbances of a broker that a bench can begin and end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from attrs import define, field

from logd.bench.peers.disturbing_peers import TOPIC
from logd.errors import LogdError
from logd.log.disk.names import folder_name


class Disturbance(Protocol):
    """A disturbance, which has not begun yet. ``begin`` and ``end`` block."""

    def begin(self, port: int) -> None:
        """Disturb the broker at this port of loopback; return once the disturbance has begun."""
        ...

    def end(self) -> str:
        """Stop; return a description of the work done, or an empty text."""
        ...


@define(eq=False)
class Peers:
    """Peers in another process; see ``logd.bench.peers.disturbing_peers``."""

    kind: str
    count: int
    data: str
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def begin(self, port: int) -> None:
        """See Disturbance."""
        folder = os.path.join(self.data, folder_name(TOPIC, 0))
        command = [
            sys.executable,
            "-m",
            "logd.bench.peers.disturbing_peers",
            self.kind,
            str(port),
            str(self.count),
            folder,
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            self.end()
            raise LogdError(f"the peers of {self.kind!r} have failed")

    def end(self) -> str:
        """See Disturbance. Raises LogdError if the peers ended earlier, since then nothing was disturbed."""
        process, self._process = self._process, None
        if process is None:
            return ""
        gone = process.poll() is not None
        process.kill()
        output, _ = process.communicate()
        if gone:
            raise LogdError(f"the peers of {self.kind!r} went away")
        numbers = output.split()
        return f"{int(numbers[-1]) / 1e6:,.0f} MB read" if numbers else ""


@define(eq=False)
class Flag:
    """A broker's behaviour that lasts while a file exists; see ``logd.bench.peers.slow_disk``."""

    path: str

    def begin(self, port: int) -> None:
        """See Disturbance."""
        Path(self.path).touch()

    def end(self) -> str:
        """See Disturbance."""
        Path(self.path).unlink(missing_ok=True)
        return ""
