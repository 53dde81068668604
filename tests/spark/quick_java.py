"""``python -m tests.spark.quick_java HOME``: make a JAVA_HOME whose Java starts Spark in half the processor time.

Spark loads some ten thousand classes from its jars at each start, and Java parses and verifies every one. An archive
of classes (Java's class-data sharing) has them as they are in memory. It is made by one Spark session that does what
tests do, and its Java writes the archive when it ends. ZooKeeper, which many tests start, has an archive as well. HOME
has no Java of its own: its ``bin/java`` is a script that calls the Java found on this machine, with the archive if it
starts one of the two. Java goes on without an archive that does not fit, for example after another Spark was installed.
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

#: The names of the archives in HOME.
ARCHIVE, ZOOKEEPER_ARCHIVE = "spark.jsa", "zookeeper.jsa"
#: Set for the session, and the server, whose classes become an archive.
RECORDING = "LOGD_JAVA_RECORDS"
#: Seconds that a session and the writing of its archive may take, on a machine with much else to do.
_PATIENCE = 300.0
_TICK = 0.05

#: Short work is done sooner by code that is compiled lightly, and by one thread that collects garbage, but not only
#: because many classes are loaded.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
#: An archive is used at the address that it was made for. Java's default is another address for each process, against
#: attacks: then every pointer in it is changed at each start, and each process has its 200 MB for itself.
_USE = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -Xshare:auto "
    "'-Xlog:cds*=off' '-Xlog:class+path*=off'"
)

#: The parent waits while an archive is written, so that it appears under its name only when it is whole.
_SCRIPT = """\
#!/bin/sh
# Starts Spark and ZooKeeper from archives of their classes, and everything else as it is.
case " $* " in
*" org.apache.spark.launcher.Main "*) exec "{java}" "$@" ;;
*" org.apache.spark.deploy.SparkSubmit "*) ;;
*" org.apache.zookeeper.server.quorum.QuorumPeerMain "*)
    if [ -n "${{{recording}:-}}" ]; then
        exec "{java}" -XX:ArchiveClassesAtExit="{zookeeper}" '-Xlog:cds*=off' "$@"
    fi
    exec "{java}" -XX:SharedArchiveFile="{zookeeper}" {use} "$@" ;;
*) exec "{java}" "$@" ;;
esac
if [ -n "${{{recording}:-}}" ]; then
    "{java}" {options} -XX:ArchiveClassesAtExit="{archive}.new" '-Xlog:cds*=off' "$@"
    mv "{archive}.new" "{archive}"
else
    exec "{java}" {options} -XX:SharedArchiveFile="{archive}" {use} "$@"
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

#: The requests of tests to a ZooKeeper.
_SERVER = """
import sys
from kazoo.client import KazooClient
from logd.testing.processes.zookeeper import ZooKeeperProcess
with ZooKeeperProcess(sys.argv[1] + "/zookeeper") as server:
    client = KazooClient(server.hosts)
    client.start()
    client.add_auth("digest", "user:password")
    client.create("/a/b", b"value", makepath=True)
    client.create("/a/n-", ephemeral=True, sequence=True)
    client.get("/a/b", watch=print)
    client.get_children("/a", watch=print)
    client.exists("/c", watch=print)
    change = client.transaction()
    change.set_data("/a/b", b"other")
    change.create("/c")
    change.delete("/nothing")
    change.commit()
    client.set_acls("/a/b", client.get_acls("/a/b")[0])
    client.set("/a/b", b"other")
    client.sync("/a")
    client.delete("/a", recursive=True)
    client.stop()
    client.close()
"""


def make_home(home: Path, java: str) -> None:
    """Make a JAVA_HOME around ``java``, the path of a program, without an archive."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    archive, zookeeper = home / ARCHIVE, home / ZOOKEEPER_ARCHIVE
    text = _SCRIPT.format(
        java=java, options=_OPTIONS, use=_USE, archive=archive, zookeeper=zookeeper, recording=RECORDING
    )
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


def record_zookeeper(home: Path, folder: Path) -> bool:
    """Run a server whose classes become ZooKeeper's archive in ``home``; return whether it was made. Blocks."""
    subprocess.run(
        [sys.executable, "-c", _SERVER, str(folder)],
        env={**os.environ, "JAVA_HOME": str(home), RECORDING: "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=_PATIENCE,
        check=False,
    )
    return (home / ZOOKEEPER_ARCHIVE).exists()


def main(home: Path) -> int:
    """Make the home and its archives; return the exit status, 0 also where there is no Spark or no Java."""
    if os.environ.get("JAVA_HOME") == str(home):
        del os.environ["JAVA_HOME"]  # a program that calls itself would never end
    if why_not() is not None:
        print(f"No archive of Spark's classes: {why_not()}")
        return 0
    make_home(home, f"{java_home()}/bin/java")
    for name in (ARCHIVE, ZOOKEEPER_ARCHIVE):
        (home / name).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="logd-java-") as folder:
        if not record(home, Path(folder)):
            print("No archive of Spark's classes: its session failed, and the tests of Spark take longer.")
        if not record_zookeeper(home, Path(folder)):
            print("No archive of ZooKeeper's classes: its server failed, and the tests of ZooKeeper take longer.")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
