"""A busy machine on purpose: processes that compute, and one that writes to the disk and syncs.

    python -m tests.endurance.load compute|write

Each runs until it is killed, or until the process that started it has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Self

from tests.endurance.trial import ROOT

#: Most bytes of the writing process on the disk, and its bytes between two syncs.
_FILE_BYTES, _WRITE_BYTES = 64 << 20, 4 << 20


class Load:
    """A context manager: two computing processes for each processor, and one that writes."""

    def __enter__(self) -> Self:
        kinds = ["compute"] * (2 * (os.cpu_count() or 1)) + ["write"]
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.endurance.load", kind],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Linux may share processors among sessions, and each test has its own
            )
            for kind in kinds
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _compute(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(1_000_000))


def _write(parent: int) -> None:
    piece = os.urandom(_WRITE_BYTES)
    with tempfile.TemporaryFile() as file:
        written = 0
        while os.getppid() == parent:
            file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            written += len(piece)
            if written >= _FILE_BYTES:
                file.seek(0)
                written = 0


if __name__ == "__main__":
    {"compute": _compute, "write": _write}[sys.argv[1]](os.getppid())
