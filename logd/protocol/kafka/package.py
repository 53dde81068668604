"""The package kafka-python, which reads and writes most requests of Kafka's clients: the extra ``kafka``."""

from __future__ import annotations

import sys
import warnings
from importlib.resources import files
from importlib.util import find_spec, module_from_spec
from types import ModuleType, SimpleNamespace
from typing import Any

from logd.errors import MissingPackage
from logd.protocol.optional_packages import pip_install

_NAME = "kafka"


def require_package(what: str) -> None:
    """Import the package, so that the first client need not wait for that. ``what`` needs it.

    Raises MissingPackage if it is not installed, or too old.
    """
    try:
        _leave_clients_out()
        _read_schemas_without_warnings()
        from kafka.protocol.metadata import MetadataResponse
    except ImportError as error:
        problem = f"which cannot be imported for {sys.executable} ({error})"
    else:
        if hasattr(MetadataResponse, "decode"):
            return
        problem = f"and the one that is installed for {sys.executable} is too old"
    raise MissingPackage(f"{what} needs the package kafka-python, 3.0.12 or later, {problem}: {pip_install('kafka')}")


def _leave_clients_out() -> None:
    """Let the clients, which ``import kafka`` brings, wait until an attribute of the package itself is used.

    A broker needs only ``kafka.protocol``: without the clients it starts 60 ms earlier and is 6 MB smaller.
    """
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is None or spec.loader is None:
        return
    package, loader = module_from_spec(spec), spec.loader

    def complete(name: str) -> Any:
        if vars(package).pop("__getattr__", None) is not None:
            loader.exec_module(package)
        return ModuleType.__getattribute__(package, name)

    vars(package)["__getattr__"] = complete
    sys.modules[_NAME] = package


def _read_schemas_without_warnings() -> None:
    """Let the modules of requests, which each read their schemas when they are imported, do so without warnings.

    Up to 3.12 Python calls the function that they use deprecated. A test suite that has made warnings errors, as many
    have, could not import them otherwise: not here, and not where the first request of a kind arrives.
    """
    if sys.version_info >= (3, 13):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.protocol.schemas import load_json  # noqa: F401  # and with it the package, which reads some itself
    reader = sys.modules.get("kafka.protocol.schemas.load_json")
    if reader is not None:
        vars(reader)["importlib"] = SimpleNamespace(resources=SimpleNamespace(read_text=_read_resource))


def _read_resource(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
