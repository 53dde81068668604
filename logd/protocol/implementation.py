"""The choice between the compiled loops and checksums and those in Python, by LOGD_LOOPS, once for a process.

``compiled`` and ``python`` force one. Without the variable it is the compiled one where the extension was built from
the source that lies beside it, if there is one. An extension that cannot be used is reported by one RuntimeWarning.
"""

from __future__ import annotations

import sys
from importlib import import_module
from os import environ
from pathlib import Path
from shlex import quote
from types import ModuleType
from warnings import warn
from zlib import crc32

__all__ = ["IMPLEMENTATION", "REASON", "UNUSABLE", "CompiledUnusable", "compiled", "compiled_loops", "described"]

#: The names that the rest of logd takes from the extension.
NAMES = (
    *("check_set", "columns_of_set", "decode_set", "encode_payload_frames", "encode_payload_records"),
    *("encode_payloads", "encode_records", "encode_set", "ends_of_set", "find_batches", "heads_of_set", "join_frames"),
    *(
        "payload_sizes",
        "records_of_set",
        "scan_set",
        "slice_end",
        "summarize_messages",
        "wire_of_run",
        "crc32",
        "crc32c",
        "set_up",
        "SOURCE_CRC",
    ),
)

_EXTENSION = "logd.protocol._compiled"


class CompiledUnusable(ImportError):
    """There is an extension, but it does not belong to this version of logd, or cannot be loaded."""


def compiled_loops() -> ModuleType:
    """Return the extension.

    Raises CompiledUnusable, and ModuleNotFoundError where it was not built.
    """
    try:
        extension = import_module(_EXTENSION)
    except ModuleNotFoundError:
        raise
    except ImportError as error:
        raise CompiledUnusable(f"they cannot be loaded ({error})") from error
    lacking = [name for name in NAMES if not hasattr(extension, name)]
    if lacking:
        raise CompiledUnusable(f"they are those of another version of logd: {', '.join(lacking)} is not among them")
    try:
        source = Path(__file__).with_name("_compiled.c").read_bytes()
    except OSError:  # an installed package has no sources; its extension was built with it
        return extension
    if crc32(source) != extension.SOURCE_CRC:
        raise CompiledUnusable("they were built from another version of logd/protocol/_compiled.c")
    return extension


def _remedy() -> str:
    """Return the way to a usable extension, as a sentence for the user."""
    root = Path(__file__).parents[2]
    if (root / "setup.py").is_file():
        build = f"{quote(sys.executable)} setup.py build_ext --inplace --force"
        return f"To build them again: cd {quote(str(root))} && {build}"
    return "To build them again, install logd again"


#: The extension in use; None if it is not.
compiled: ModuleType | None = None
#: The reason why this implementation is in use, a few words.
REASON = "the extension is built"
#: The words of the warning, where an extension is there and cannot be used.
UNUSABLE: str | None = None

_asked = environ.get("LOGD_LOOPS") or None
if _asked not in (None, "compiled", "python"):
    raise ImportError(f"LOGD_LOOPS is {_asked!r}, which is not allowed; allowed is compiled or python")
if _asked == "python":
    REASON = "LOGD_LOOPS is python"
else:
    try:
        compiled = compiled_loops()
        if _asked == "compiled":
            REASON = "LOGD_LOOPS is compiled"
    except CompiledUnusable as error:
        if _asked == "compiled":
            raise ImportError(
                f"LOGD_LOOPS is 'compiled', but the compiled loops cannot be used: {error}. {_remedy()}"
            ) from error
        REASON = f"the compiled ones cannot be used: {error}"
        UNUSABLE = (
            f"The compiled loops of logd are not used: {error}. logd works with its loops in Python, which take "
            f"several times the processor time. {_remedy()}"
        )
        warn(UNUSABLE, RuntimeWarning, stacklevel=2)
    except ImportError as error:
        if _asked == "compiled":
            raise ImportError(
                f"LOGD_LOOPS is 'compiled', but the compiled loops cannot be imported ({error}): install logd where "
                "there is a C compiler, or unset LOGD_LOOPS"
            ) from error
        REASON = "the compiled ones were not built here"

#: The name of the implementation in use.
IMPLEMENTATION = "python" if compiled is None else "compiled"


def described() -> str:
    """Return the implementation in use and the reason, for ``--version``."""
    return f"loops: {IMPLEMENTATION}; {REASON}"
