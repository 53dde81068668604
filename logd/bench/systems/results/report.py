"""The result of a comparison as Markdown: the table of rates, the systems, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logd.bench.systems.known import SYSTEMS
from logd.bench.systems.results.chosen import Row, has_disk, number, seconds_of

_BATCHES = {0: "default"}
#: The load average before a run above which its rates are those of a busy machine.
DISTURBED = 1.0


def markdown(result: Mapping[str, Any]) -> str:
    """Return the page: rates with their spread, latencies, durability, and a line for each thing not measured."""
    lines = [
        f"Messages of {result['size']} bytes; {_planned(result)}; "
        f"{rounds_words(result)}; {machine_words(result)}. Batch: "
        "messages to a request; default: one message a call, and the client's own batches. For 50 to a request logd is "
        "given a ready set of 50 in one call, and rstream a list of 50. The others take a call for each message, by "
        "which aiokafka fills a batch and redis-py a pipeline.",
        "",
        *_rates(result["figures"], result["size"]),
        *_latencies(result["figures"]),
        "Durability of an acknowledged message:",
        "",
        *(f"- {_named(each)}: {each['durability']}." for each in result["systems"]),
    ]
    missing = [*((each["name"], each["reason"]) for each in result["missing"]), *_left_out(result)]
    if missing:
        lines += ["", "Not measured:", "", *(f"- {name}: {_line(reason)}" for name, reason in missing)]
    return "\n".join(lines) + "\n"


def lasted_words(rows: Sequence[Row]) -> str:
    """Return words on the messages and seconds of the measurements in ``rows``."""
    if not rows:
        return "nothing was measured"
    messages = _range([number(row["messages"]) for row in sorted(rows, key=lambda row: float(row["messages"]))])
    seconds = _range([number(each) for each in sorted(map(seconds_of, rows))])
    return f"a measurement has {messages} messages and took {seconds} s"


def _range(ordered: Sequence[str]) -> str:
    least, most = ordered[0], ordered[-1]
    return least if least == most else f"{least} to {most}"


def _planned(result: Mapping[str, Any]) -> str:
    """Return words on the messages of a measurement, as the run's options say."""
    if "seconds" not in result:
        return f"{result['messages']:,} in a measurement, a tenth with batch 1"
    most, single = result["messages"], result["single_messages"]
    counts = f"{most:,}" if single == most else f"{most:,}, with batch 1 {single:,}"
    if not result["seconds"]:
        return f"{counts} in a measurement"
    return f"in a measurement as many as the client sends in about {result['seconds']:g} s, at most {counts}"


def rounds_words(result: Mapping[str, Any]) -> str:
    """Return words on what a figure is over the rounds of the run."""
    rounds = result["rounds"]
    return "one round" if rounds == 1 else f"medians of {rounds} rounds, with the least and the greatest"


def machine_words(result: Mapping[str, Any]) -> str:
    """Return words on the machine, such as ``2 processors (...) shared by both sides, ...``."""
    machine = result["machine"]
    load = float(machine["load_average"])
    disturbed = ", so other work took part of the processors" if load > DISTURBED else ""
    return (
        f"{machine['processors']} processors ({machine['processor']}) shared by both sides, "
        f"{machine['memory_gigabytes']} GB of memory, {machine['system']}, Python {machine['python']}; load average "
        f"before the run {load:g}{disturbed}"
    )


def _rates(figures: Sequence[Mapping[str, Any]], size: int) -> list[str]:
    lines = [
        "| system | client | | batch | acks | messages | s | messages/s | client us | server us "
        "| client MB | server MB | disk bytes |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in figures:
        if each["part"] == "latency":
            continue
        low, high = each["spread"].get("messages_per_second", (each["messages_per_second"],) * 2)
        cells = [
            each["system"],
            each["client"],
            each["part"],
            _BATCHES.get(each["batch"], each["batch"]),
            each.get("acks", ""),
            number(each["messages"]),
            number(seconds_of(each)),
            f"{each['messages_per_second']:,.0f} ({low:,.0f} to {high:,.0f})",
            _microseconds(each, "client_processor_seconds"),
            _microseconds(each, "server_processor_seconds"),
            f"{each['client_peak_megabytes']:,.0f}",
            f"{each['server_peak_megabytes']:,.0f}",
            "" if each["part"] != "produce" else _disk(each, size),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, "", "us: microseconds of processor time for each message.", ""]


def _disk(row: Row, size: int) -> str:
    return f"{row['disk_bytes_per_message']:,.0f}" if has_disk(row, size) else "not measured"


def _latencies(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [each for each in figures if each["part"] == "latency"]
    if not rows:
        return []
    lines = ["| system | client | rate | reached | median ms | 99 % ms |", "|---|---|---|---|---|---|"]
    for each in rows:
        cells = [
            f"{each['rate']:,}",
            f"{each['reached_per_second']:,.0f}",
            each["latency_ms_median"],
            each["latency_ms_99"],
        ]
        lines.append(f"| {each['system']} | {each['client']} | {' | '.join(map(str, cells))} |")
    return [*lines, "", "Time from the moment at which a message was due until the consumer has it.", ""]


def _left_out(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the options of the run left out, with the reason: a reader would not see that it could be there."""
    named = {each["system"] for each in result["systems"]} | {each["name"] for each in result["missing"]}
    systems = [(kind.name, "left out of this run by --system") for kind in SYSTEMS.values() if kind.name not in named]
    return systems if result["rates"] else [*systems, ("latency", "left out of this run by --no-latency")]


def _microseconds(figures: Mapping[str, Any], name: str) -> str:
    return f"{figures[name] / figures['messages'] * 1e6:,.2f}"


def _named(system: Mapping[str, str]) -> str:
    return f"{system['system']} {system['version']}".strip()


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
