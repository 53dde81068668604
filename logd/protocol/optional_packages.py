"""Optional packages, imported where they are used, since a Spark worker may not have them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from logd.errors import MissingPackage

#: The extra of logd that has an optional package.
_EXTRAS = {"fastavro": "avro", "opentelemetry": "tracing"}


@contextmanager
def needing(package: str, what: str) -> Iterator[None]:
    """Wrap an import of ``package``, which ``what`` needs. Raises MissingPackage, which names the Python without it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingPackage(
            f"{what} needs the package {package}, which is not installed for {sys.executable}: install it there"
            f"{_extra(package)}, on every machine that runs this"
        ) from None


def _extra(package: str) -> str:
    return f" (pip install 'logd[{_EXTRAS[package]}]')" if package in _EXTRAS else ""
