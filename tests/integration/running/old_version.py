"""Another version of logd, installed from a commit into a virtual environment, and its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

from attrs import define, frozen

from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess
from tests.integration.peers import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
#: The commit that an upgrade begins from.
VARIABLE = "LOGD_UPGRADE_FROM"


@frozen
class Version:
    """An installed logd, by the interpreter that has it."""

    name: str
    python: str

    def run(self, *arguments: str, given: str = "", broker: str = "", tree: str = "") -> str:
        """Run a command of this version and return its output. Raises CalledProcessError with what it printed."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("LOGD_", "PYTHONPATH"))}
        done = subprocess.run(
            [self.python, "-m", "logd", *arguments],
            input=given.encode(),
            capture_output=True,
            cwd="/",
            env={**environ, "LOGD_BROKER": broker, "LOGD_ZOOKEEPER": tree},
            timeout=PATIENCE,
        )
        if done.returncode:
            raise AssertionError(f"logd of {self.name}: {arguments}: {done.stdout!r} {done.stderr!r}")
        return done.stdout.decode()


#: This checkout.
NEW = Version("this checkout", sys.executable)


def installed(commit: str, folder: Path) -> Version:
    """Install a commit of this repository into a new environment. Raises CalledProcessError."""
    source = folder / "source"
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(source, filter="tar")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(source)],
        check=True,
        cwd="/",
        stdout=sys.stderr,
    )
    return Version(commit, python)


@define(eq=False)
class VersionedBroker(BrokerProcess):
    """A broker of a version; ``version`` may be changed while it does not run."""

    version: Version = NEW

    @property
    def command(self) -> list[str]:
        """The command line, by the version's interpreter."""
        return ["env", "-C", "/", self.version.python, *super().command[1:]]


@define(eq=False)
class VersionedTree(CoordinationProcess):
    """``logd zookeeper`` of a version; ``version`` may be changed while it does not run."""

    version: Version = NEW

    @property
    def command(self) -> list[str]:
        """The command line, by the version's interpreter."""
        return ["env", "-C", "/", self.version.python, *super().command[1:]]
