"""Optional packages, imported where they are used, since a Spark worker may not have them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from logd.errors import MissingPackage

#: The requirements of the extras that messages name, as in setup.cfg. Messages give these in place of ``logd[...]``:
#: logd is in no registry, so where it is not installed, as on a machine to which Spark ships it, pip would install
#: another project of that name.
EXTRAS = {
    "avro": ("fastavro>=1.9",),
    "console": ("jinja2>=3.1",),
    "iceberg": ("pyiceberg[pyarrow,sql-sqlite]>=0.11",),
    "kafka": ("kafka-python>=3.0.12",),
    "spark": ("fastavro>=1.9", "pyarrow>=18", "pyspark>=4.2"),
    "tls": ("twisted[tls]>=25.5",),
    "tracing": ("opentelemetry-api>=1.20",),
}
#: The extra of logd that has an optional package.
_EXTRA_OF = {"fastavro": "avro", "opentelemetry": "tracing"}


def pip_install(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    return f"pip install {' '.join(map(repr, EXTRAS[extra]))}"


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
            f"{_command(package)}, on every machine that runs this"
        ) from None


def _command(package: str) -> str:
    return f" ({pip_install(_EXTRA_OF[package])})" if package in _EXTRA_OF else ""
