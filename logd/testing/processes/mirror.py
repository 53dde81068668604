"""A mirror in its own process."""

from __future__ import annotations

import subprocess
import sys
from typing import Self

from attrs import define, field

from logd.testing.processes.python_process import start_python
from logd.testing.processes.server import PATIENCE, ServerProcess

_TWISTD = "from twisted.scripts.twistd import run; run()"


@define(eq=False)
class MirrorProcess(ServerProcess):
    """``twistd -n logd-mirror`` with these options, a context manager that stops it; its log is at ``log_path``."""

    options: tuple[str, ...]
    log_path: str = ""
    #: Seconds in which it must stop when asked to.
    patience: float = PATIENCE
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> str:
        """The path of its log."""
        return self.log_path

    def start(self) -> Self:
        """Start it; it finds its clusters by itself."""
        twistd = [sys.executable, "-c", _TWISTD, "-n", "--pidfile=", "--logfile", self.log]
        self.process = start_python([*twistd, "logd-mirror", *self.options], stdin=subprocess.DEVNULL)
        return self
