"""A folder that exists while a bench runs, and the end of all benches of this process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from logd.testing.processes.python_process import kill_started

#: The folders that exist now.
_FOLDERS: list[str] = []


@contextmanager
def scratch(folder: str) -> Iterator[str]:
    """Make a new folder in ``folder``, and remove it with its contents at the end."""
    path = tempfile.mkdtemp(prefix="logd-bench-", dir=os.path.abspath(folder))
    _FOLDERS.append(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _FOLDERS.remove(path)


def abandon() -> None:
    """Kill the servers that benches have started, and remove the folders, for a process that ends before they do."""
    kill_started()
    for path in tuple(_FOLDERS):
        shutil.rmtree(path, ignore_errors=True)
