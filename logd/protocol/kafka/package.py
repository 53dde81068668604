"""The package kafka-python, which reads and writes most requests of Kafka's clients: the extra ``kafka``."""

from __future__ import annotations

import sys

from logd.errors import MissingPackage


def require_package(what: str) -> None:
    """Import the package, so that the first client need not wait for that. ``what`` needs it.

    Raises MissingPackage if it is not installed, or too old.
    """
    try:
        from kafka.protocol.metadata import MetadataResponse
    except ImportError as error:
        problem = f"which cannot be imported for {sys.executable} ({error})"
    else:
        if hasattr(MetadataResponse, "decode"):
            return
        problem = f"and the one that is installed for {sys.executable} is too old"
    raise MissingPackage(
        f"{what} needs the package kafka-python, 3.0.12 or later, {problem}: pip install 'logd[kafka]'"
    )
