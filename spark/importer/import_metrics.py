"""The result of an import as a file of metrics for the textfile collector of Prometheus' node_exporter."""

from __future__ import annotations

import re
from collections.abc import Mapping

from logd.spark.importer.report import ImportReport

#: The metrics of one target, with their help. All are gauges: they tell of the last run, not of a sum.
_HELP = {
    "logd_import_success": "1 if the last import ended without an error, also if there was nothing new; else 0.",
    "logd_import_last_end_timestamp_seconds": "The end of the last import, successful or not.",
    "logd_import_last_success_timestamp_seconds": "The end of the last import without an error.",
    "logd_import_duration_seconds": "The duration of the last import.",
    "logd_import_messages": "Messages that the last import loaded.",
    "logd_import_log_bytes": "Bytes of log of these messages.",
    "logd_import_gap_bytes": "Bytes of log in the loaded ranges that hold no message any more.",
    "logd_import_quarantined_messages": "Messages that could not be decoded, and went to the quarantine.",
    "logd_import_lost_ranges": "Losses that the last import skipped and recorded (--on-data-loss warn).",
    "logd_import_run": "The number of the last run that was made.",
}
#: Kept from the file of the import before when one fails or has nothing new.
_KEPT = ("logd_import_last_success_timestamp_seconds", "logd_import_run")


def metrics_text(to: str, now: float, seconds: float, report: ImportReport | None, former: str) -> str:
    """Return the content of the file after an import into ``to``; ``report`` is None after a failed one.

    ``now`` is in seconds since 1970. ``former`` is the content of the file before, which may be empty: a failed import
    keeps the time of the last success, for an alert on its age.
    """
    values = {name: value for name, value in _samples(former).items() if name in _KEPT}
    values["logd_import_success"] = float(report is not None)
    values["logd_import_last_end_timestamp_seconds"] = now
    values["logd_import_duration_seconds"] = seconds
    if report is not None:
        values["logd_import_last_success_timestamp_seconds"] = now
        values["logd_import_messages"] = report.messages
        values["logd_import_log_bytes"] = sum(each.bytes for each in report.loaded)
        values["logd_import_gap_bytes"] = sum(each.gap_bytes for each in report.loaded)
        values["logd_import_quarantined_messages"] = report.quarantined
        values["logd_import_lost_ranges"] = len(report.plan.lost)
        if report.run is not None:
            values["logd_import_run"] = report.run
    return _written(to, values)


def _written(to: str, values: Mapping[str, float]) -> str:
    label = to.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    lines = []
    for name, text in _HELP.items():
        if name in values:
            lines += [
                f"# HELP {name} {text}",
                f"# TYPE {name} gauge",
                f'{name}{{target="{label}"}} {values[name]:.15g}',
            ]
    return "\n".join(lines) + "\n"


def _samples(text: str) -> dict[str, float]:
    """Read the values of a file that ``metrics_text`` made; other lines are left out."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(logd_import_\w+)\{target=\".*\"\} (\d+(?:\.\d+)?)", line)
        if match:
            found[match[1]] = float(match[2])
    return found
