"""``python -m tests.spark.quick_java HOME``: make a JAVA_HOME whose Java starts Spark in half the processor time.

Spark loads some ten thousand classes from its jars at each start, and Java parses and verifies every one. An archive
of classes (Java's class-data sharing) has them as they are in memory. It is made by one Spark session that does what
tests do, and its Java writes the archive when it ends. HOME has no Java of its own: its ``bin/java`` is a script that
calls the Java found on this machine, with the archive if it starts Spark. Java goes on without an archive that does
not fit, for example after another Spark was installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from logd.java_runtime import java_home
from tests.integration.spark.rig import why_not

#: The name of the archive in HOME.
ARCHIVE = "spark.jsa"
#: Set for the session whose classes become the archive.
RECORDING = "LOGD_JAVA_RECORDS"
#: Seconds that a session and the writing of its archive may take, on a machine with much else to do.
_PATIENCE = 300.0
_TICK = 0.05

#: Short work is done sooner by code that is compiled lightly, and by one thread that collects garbage.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: The parent waits while an archive is written, so that it appears under its name only when it is whole.
_SCRIPT = """\
#!/bin/sh
# Starts Spark from an archive of its classes, and everything else as it is.
case " $* " in
*" org.apache.spark.launcher.Main "*) exec "{java}" "$@" ;;
*" org.apache.spark.deploy.SparkSubmit "*) ;;
*) exec "{java}" "$@" ;;
esac
if [ -n "${{{recording}:-}}" ]; then
    "{java}" {options} -XX:ArchiveClassesAtExit="{archive}.new" '-Xlog:cds*=off' "$@"
    mv "{archive}.new" "{archive}"
else
    exec "{java}" {options} -XX:SharedArchiveFile="{archive}" -Xshare:auto '-Xlog:cds*=off' '-Xlog:class+path*=off' "$@"
fi
"""

#: The work of tests in a session: topics read at once and as a stream, files written and read, a query.
_SESSION = """
import sys
from logd.protocol.message import Message
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.session import local_session
from logd.testing.processes.broker import BrokerProcess
folder = sys.argv[1]
spark = local_session("classes for the archive", quick=True)
with BrokerProcess(folder + "/broker") as broker:
    with BlockingCluster(ClusterSettings(brokers=broker.address)) as cluster:
        producer = ExecutorProducer(cluster)
        producer.send("t", Message(b"value"), 0)
        producer.flush()
    options = {"brokers": broker.address, "subscribe": "t", "startingOffsets": "earliest"}
    spark.read.format("logd").options(**options).load().write.partitionBy("topic").parquet(folder + "/files")
    stream = spark.readStream.format("logd").options(**options).load().writeStream.format("memory").queryName("seen")
    stream = stream.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
    stream.awaitTermination()
spark.read.parquet(folder + "/files").createTempView("files")
spark.sql("select id % 2 as odd, count(*), max(cast(value as string)) from files group by odd order by odd").collect()
spark.stop()
"""


def make_home(home: Path, java: str) -> None:
    """Make a JAVA_HOME around ``java``, the path of a program, without an archive."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = _SCRIPT.format(java=java, options=_OPTIONS, archive=home / ARCHIVE, recording=RECORDING)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)


def record(home: Path, folder: Path) -> bool:
    """Run a session whose classes become the archive of ``home``; return whether it was made. Blocks."""
    environment = {**os.environ, "JAVA_HOME": str(home), RECORDING: "1"}
    done = subprocess.run(
        [sys.executable, "-c", _SESSION, str(folder)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=_PATIENCE,
        check=False,
    )
    # Java ends after the Python that it served, and then writes.
    limit = time.monotonic() + (_PATIENCE if done.returncode == 0 else 0)
    while not (made := (home / ARCHIVE).exists()) and time.monotonic() < limit:
        time.sleep(_TICK)
    return made


def main(home: Path) -> int:
    """Make the home and its archive; return the exit status, 0 also where there is no Spark or no Java."""
    if os.environ.get("JAVA_HOME") == str(home):
        del os.environ["JAVA_HOME"]  # a program that calls itself would never end
    if why_not() is not None:
        print(f"No archive of Spark's classes: {why_not()}")
        return 0
    make_home(home, f"{java_home()}/bin/java")
    (home / ARCHIVE).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="logd-java-") as folder:
        if not record(home, Path(folder)):
            print("No archive of Spark's classes: its session failed, and the tests of Spark take longer.")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
