"""A driver that reads and writes as a user, and prints all that Spark shows of it: plans, pages, errors.

Arguments: broker, a folder for the log of events, and the password files of root and ann. What it found out is on the
last line, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from logd.spark.session import local_session

_PAGES = ("jobs/", "SQL/", "SQL/execution/?id=0", "SQL/execution/?id=1", "environment/", "executors/", "stages/")
_API = ("", "/jobs", "/stages?details=true", "/sql?details=true&planDescription=true", "/environment")


def main() -> None:
    """Read, write, fail, and print."""
    broker, folder, root, ann = sys.argv[1:]
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder,
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
    }
    spark = local_session("users", settings=settings, quick=True)

    def frame(user: str, file: str) -> Any:
        options = {"brokers": broker, "subscribe": "t", "user": user, "passwordFile": file}
        return spark.read.format("logd").options(**options).load()

    def failure(work: Callable[[], object]) -> str:
        try:
            return str(work())
        except (Py4JError, PySparkException) as error:
            return str(error)

    read = frame("ann", ann)
    values = [bytes(row.value).decode() for row in read.collect()]
    written = spark.createDataFrame([(b"by spark",)], "value binary")
    write = {"brokers": broker, "topic": "written", "passwordFile": root, "user": "root"}
    written.write.format("logd").options(**write).mode("append").save()
    refused = failure(lambda: written.write.format("logd").options(**{**write, "user": "ann"}).mode("append").save())
    wrong = failure(frame("ann", root).collect)
    read.explain("extended")
    read.explain("formatted")
    print(read._jdf.queryExecution().toString(), refused, wrong)
    context = spark.sparkContext
    address = context.uiWebUrl
    for page in _PAGES:
        print(_page(f"{address}/{page}"))
    for call in _API:
        print(_page(f"{address}/api/v1/applications/{context.applicationId}{call}"))
    print(dict(context.getConf().getAll()))
    spark.stop()
    print(json.dumps({"values": values, "refused": "wrong" in refused, "wrong": "wrong" in wrong}))


def _page(url: str) -> str:
    with urlopen(url, timeout=120) as response:
        text: str = response.read().decode()
    return text


if __name__ == "__main__":
    main()
