"""A folder that is there while a bench runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def scratch(folder: str) -> Iterator[str]:
    """A new folder in ``folder``, removed with all that is in it."""
    path = tempfile.mkdtemp(prefix="logd-bench-", dir=os.path.abspath(folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
