"""The Python of a local session's workers: the driver's own, with the installed pyspark.

Spark lets its workers import pyspark from a zip of sources, which Python compiles again in each new process: 0.6 s in
each of the four processes of a first read. A script in between removes the zip from their path.
"""

from __future__ import annotations

import os
import shlex
import sys
from hashlib import sha256
from pathlib import Path

_SCRIPT = """\
#!/bin/sh
# Starts a Spark worker with the installed pyspark, which is compiled, instead of a zip of its sources.
PYTHONPATH={path} exec {python} "$@"
"""


def worker_python(path: str, folder: str | None = None) -> str:
    """Return a program that is this interpreter with the PYTHONPATH ``path``, whatever path it is given.

    The program is written into ``folder``, by default in the user's cache. If that is impossible, the interpreter
    itself is returned, which starts later.
    """
    text = _SCRIPT.format(path=shlex.quote(path), python=shlex.quote(sys.executable))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    program = Path(folder or os.path.join(cache, "logd", "python")) / sha256(text.encode()).hexdigest()[:16]
    try:
        if not program.exists() or program.read_text(encoding="utf-8") != text:
            program.parent.mkdir(parents=True, exist_ok=True)
            # Two programs may do this at once: each writes its own file, and the last rename wins.
            made = program.with_name(f"{program.name}.{os.getpid()}")
            made.write_text(text, encoding="utf-8")
            made.chmod(0o755)
            made.replace(program)
    except OSError:
        return sys.executable
    return str(program)
