"""The versions of logd, of what it uses, of Python and of the kernel; and those of the other brokers."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata

from logd import __version__
from logd.doctor.observation import Level, Observation
from logd.protocol.implementation import IMPLEMENTATION, REASON

AREA = "versions"
#: A requirement with its lower bounds, as in ``kazoo >= 2.10``; those with a marker belong to extras.
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?P<bounds>[^;]*)(?P<marker>;.*)?")
_BOUND = re.compile(r">=\s*([0-9][0-9.]*)")
#: The first kernel with RWF_NOWAIT for reads of files, by which cold reads are kept off the reactor.
_KERNEL = (4, 14)
_PYTHON = (3, 11)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple([int(each) for each in re.findall(r"[0-9]+", text)[:3]])


def examine_versions(
    requirements: Iterable[str], installed: Callable[[str], str | None], kernel: str = ""
) -> Iterator[Observation]:
    """Compare what is installed with the lower bounds of ``requirements``."""
    kernel = kernel or platform.release()
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON:
        yield Observation(AREA, Level.PROBLEM, "Python", f"is {python}", "logd needs 3.11 or later")
    else:
        yield Observation(AREA, Level.OK, "Python", f"is {python}, logd {__version__}")
    if sys.platform == "linux" and _numbers(kernel)[:2] < _KERNEL:
        yield Observation(
            AREA,
            Level.WARNING,
            "kernel",
            f"is {kernel}, which cannot tell cached pages from others: one reader of old messages delays all others",
            "use Linux 4.14 or later",
        )
    else:
        yield Observation(AREA, Level.OK, "kernel", f"is {kernel}")
    if IMPLEMENTATION != "compiled":
        yield Observation(
            AREA,
            Level.WARNING,
            "loops over messages",
            f"are in Python ({REASON}), which takes several times the processor time",
            "install a C compiler and Python's headers, and install logd again; or use a wheel",
        )
    else:
        yield Observation(AREA, Level.OK, "loops over messages", "are compiled")
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is None or found["marker"]:
            continue
        name, here = found["name"], installed(found["name"])
        bound = _BOUND.search(found["bounds"])
        if here is None:
            yield Observation(AREA, Level.PROBLEM, name, "is not installed", f"pip install '{requirement}'")
        elif bound is not None and _numbers(here) < _numbers(bound[1]):
            yield Observation(
                AREA, Level.PROBLEM, name, f"is {here}, and logd needs {bound[1]}", f"pip install '{requirement}'"
            )
        else:
            yield Observation(AREA, Level.OK, name, f"is {here}")


def requirements_of_logd() -> list[str]:
    """Return the requirements of the installed logd; none if it runs from a checkout that is not installed."""
    try:
        return metadata.requires("logd") or []
    except metadata.PackageNotFoundError:
        return []


def installed_version(name: str) -> str | None:
    """Return the version of an installed package, None for one that is not."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def examine_peers(versions: Mapping[int, str]) -> Iterator[Observation]:
    """Compare the versions that the brokers of the cluster have registered; empty for one that does not tell."""
    if not versions:
        return
    names = {number: version or "0.1.0 or a development version before it" for number, version in versions.items()}
    if len(set(names.values())) > 1:
        shown = ", ".join(f"broker {number}: {version}" for number, version in sorted(names.items()))
        yield Observation(
            AREA,
            Level.NOTE,
            "brokers of the cluster",
            f"differ: {shown}",
            "finish the upgrade, one broker at a time; until then do not rely on what only the newer ones know",
        )
    else:
        yield Observation(AREA, Level.OK, "brokers of the cluster", f"are all of {next(iter(names.values()))}")
