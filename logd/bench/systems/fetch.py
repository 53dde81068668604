"""Downloads other systems into a folder, only on request: from Maven Central, PyPI, Debian's packages and cargo.

Nothing is installed: packages are unpacked into the folder, which can simply be removed. A part is first made in a
folder beside it, and takes its place when it is whole, so that an interrupted download is begun again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from glob import glob
from pathlib import Path

from logd.bench.scratch import scratch
from logd.bench.systems.places import SystemPlaces
from logd.bench.systems.process_group import call
from logd.errors import LogdError

KAFKA_VERSION = "4.1.0"
ACTIVEMQ_VERSION = "6.3.1"
TANSU_VERSION = "0.6.0"
#: The usual Python clients of these systems, and matplotlib for the figures: the names for pip and for ``import``.
PYTHON_PACKAGES = {
    "aiokafka": "aiokafka",
    "confluent-kafka": "confluent_kafka",
    "hiredis": "hiredis",
    "matplotlib": "matplotlib",
    "nats-py": "nats",
    "pika": "pika",
    "redis": "redis",
    "rstream": "rstream",
    "stomp.py": "stomp",
}
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
_ACTIVEMQ_JARS = (
    *(
        ("org.apache.activemq", f"activemq-{part}", ACTIVEMQ_VERSION)
        for part in ("broker", "console", "kahadb-store", "spring", "stomp")
    ),
    ("org.springframework", "spring-context", "7.0.8"),
    ("org.slf4j", "slf4j-nop", "2.0.18"),
)


def fetch(folder: str, parts: Collection[str], tell: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Fetch those of ``parts`` that are not in ``folder`` yet, and the clients in Python.

    Returns the reason for each that failed. Blocks for minutes; tansu is compiled, for up to an hour.
    """
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    failures = {}
    for name, there, bring in (
        ("kafka", "kafka/libs/*.jar", _kafka),
        ("activemq", "activemq/libs/*.jar", _activemq),
        ("debian", "debian/usr/*", _debian),
        ("tansu", "tansu/bin/*", _tansu),
    ):
        if name not in parts or glob(os.path.join(folder, there)):
            continue
        tell(f"fetching {name}")
        try:
            with scratch(folder) as where:
                bring(where, folder)
                os.replace(os.path.join(where, name), os.path.join(folder, name))
        except (LogdError, OSError) as error:
            failures[name] = str(error)
    return failures | dict(_python(folder, tell))


def _kafka(where: str, folder: str) -> None:
    _jars(where, "kafka", _KAFKA_JARS)


def _activemq(where: str, folder: str) -> None:
    _jars(where, "activemq", _ACTIVEMQ_JARS)


def _jars(where: str, name: str, jars: Sequence[tuple[str, str, str]]) -> None:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "</dependency>"
        for group, artifact, version in jars
    )
    Path(where, "pom.xml").write_text(_POM.format(dependencies), encoding="ascii")
    call(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={where}/{name}/libs"], where)


def _debian(where: str, folder: str) -> None:
    plan = call(["apt-get", "-s", "install", "--no-install-recommends", *DEBIAN_PACKAGES], where)
    names = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    call(["apt-get", "download", *(names or DEBIAN_PACKAGES)], where)
    for package in glob(f"{where}/*.deb"):
        call(["dpkg-deb", "-x", package, f"{where}/debian"], where)
    erlang = Path(where, "debian/usr/lib/erlang/bin/erl")  # a script that contains its own path
    if erlang.exists():
        text = erlang.read_text(encoding="utf-8")
        place = f"{folder}/debian/usr/lib/erlang"
        erlang.write_text(text.replace("ROOTDIR=/usr/lib/erlang\n", f"ROOTDIR={place}\n"), encoding="utf-8")


def _tansu(where: str, folder: str) -> None:
    package = ["tansu", "--version", TANSU_VERSION, "--locked", "--features", "libsql"]
    call(["cargo", "install", "--quiet", *package, "--root", f"{where}/tansu"], where, {"CARGO_TARGET_DIR": where})


def _python(folder: str, tell: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Install the packages that are missing, one by one; yield those that failed, with the reason."""
    places = SystemPlaces(folder)
    target = os.path.join(folder, "python")
    for name, module in PYTHON_PACKAGES.items():
        if places.python_package(module):
            continue
        tell(f"fetching {name}")
        try:
            with scratch(folder) as where:
                options = ["--quiet", "--disable-pip-version-check", "--target", f"{where}/python"]
                call([sys.executable, "-m", "pip", "install", *options, name], where)
                os.makedirs(target, exist_ok=True)
                # The package itself last: it is what says that the package is there.
                for each in sorted(os.listdir(f"{where}/python"), key=lambda found: found == module):
                    if not os.path.exists(os.path.join(target, each)):
                        os.replace(f"{where}/python/{each}", os.path.join(target, each))
        except (LogdError, OSError) as error:
            yield name, str(error)
