"""A folder that exists while a bench runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def scratch(folder: str) -> Iterator[str]:
    """Make a new folder in ``folder``, and remove it with its contents at the end."""
    path = tempfile.mkdtemp(prefix="logd-bench-", dir=os.path.abspath(folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
