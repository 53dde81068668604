"""Kafka 0.7.2's own programs as processes, with the jars of a build that is not part of this project."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.integration.peers import PATIENCE

#: A folder with the jars of Kafka 0.7.2 and what it needs: Scala, ZooKeeper, zkclient, jopt-simple, log4j, snappy-java.
JARS = os.environ.get("LOGD_KAFKA_07", "")
_JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_LOGGING = """log4j.rootLogger=INFO, errors
log4j.appender.errors=org.apache.log4j.ConsoleAppender
log4j.appender.errors.target=System.err
log4j.appender.errors.layout=org.apache.log4j.PatternLayout
log4j.appender.errors.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class Program:
    """A running program, whose standard output and error are in files of ``folder``."""

    def __init__(self, folder: Path, main: str, words: Sequence[str], given: Sequence[str] = ()) -> None:
        """Start it; ``given`` are the lines of its input."""
        logging = folder / "log4j.properties"
        logging.write_text(_LOGGING, encoding="ascii")
        number = len(list(folder.glob("*.out")))
        name = f"{main.rpartition('.')[2]}-{number}"
        self.output, input_path = folder / f"{name}.out", folder / f"{name}.in"
        input_path.write_text("".join(f"{line}\n" for line in given), encoding="ascii")
        command = [*_JAVA, f"-Dlog4j.configuration=file:{logging}", "-cp", f"{JARS}/*", main, *words]
        with (
            input_path.open("rb") as lines,
            self.output.open("wb") as output,
            (folder / f"{name}.log").open("wb") as log,
        ):
            self.process = subprocess.Popen(command, stdin=lines, stdout=output, stderr=log, cwd=folder)

    def lines(self) -> list[str]:
        """Return what it has written, in whole lines."""
        return self.output.read_text(encoding="ascii").rpartition("\n")[0].splitlines()

    def has_written(self, count: int) -> bool:
        """Return whether it has written so many lines."""
        return len(self.lines()) >= count

    def wait(self) -> int:
        """Return its exit status, once it has ended."""
        return self.process.wait(2 * PATIENCE)

    def end(self) -> None:
        """Let it end in order: console producers and consumers go on after the end of their input."""
        self.process.terminate()
        self.wait()

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.process.kill()
        self.process.wait()
