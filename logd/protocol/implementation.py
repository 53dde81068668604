"""The choice between the compiled loops and checksums and those in Python, by LOGD_LOOPS, once for a process.

``compiled`` and ``python`` force one. Without the variable it is the compiled one where the extension is installed.
"""

from __future__ import annotations

from os import environ
from types import ModuleType

__all__ = ["IMPLEMENTATION", "compiled"]

#: The extension in use; None if it is not.
compiled: ModuleType | None = None

_asked = environ.get("LOGD_LOOPS") or None
if _asked not in (None, "compiled", "python"):
    raise ImportError(f"LOGD_LOOPS is {_asked!r}, which is not allowed; allowed is compiled or python")
if _asked != "python":
    try:
        from logd.protocol import _compiled

        compiled = _compiled
    except ImportError as error:
        if _asked == "compiled":
            raise ImportError(
                f"LOGD_LOOPS is 'compiled', but the compiled loops cannot be imported ({error}): install logd where "
                "there is a C compiler, or unset LOGD_LOOPS"
            ) from error

#: The name of the implementation in use.
IMPLEMENTATION = "python" if compiled is None else "compiled"
