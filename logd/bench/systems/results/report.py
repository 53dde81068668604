"""The result of a comparison as Markdown: the table of rates, the systems, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logd.bench.systems.known import SYSTEMS

_BATCHES = {0: "default"}
#: The load average before a run above which its rates are those of a busy machine.
DISTURBED = 1.0


def markdown(result: Mapping[str, Any]) -> str:
    """Return the page: rates with their spread, latencies, durability, and a line for each thing not measured."""
    lines = [
        f"Messages of {result['size']} bytes; {result['messages']:,} in a measurement, a tenth with batch 1; "
        f"{rounds_words(result)}; {machine_words(result)}. Batch: "
        "messages to a request; default: one message a call, and the client's own batches.",
        "",
        *_rates(result["figures"]),
        *_latencies(result["figures"]),
        "Durability of an acknowledged message:",
        "",
        *(f"- {_named(each)}: {each['durability']}." for each in result["systems"]),
    ]
    missing = [*((each["name"], each["reason"]) for each in result["missing"]), *_left_out(result)]
    if missing:
        lines += ["", "Not measured:", "", *(f"- {name}: {_line(reason)}" for name, reason in missing)]
    return "\n".join(lines) + "\n"


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


def _rates(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| system | client | | batch | messages/s | client us | server us | client MB | server MB | disk bytes |",
        "|---|---|---|---|---|---|---|---|---|---|",
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
            f"{each['messages_per_second']:,.0f} ({low:,.0f} to {high:,.0f})",
            _microseconds(each, "client_processor_seconds"),
            _microseconds(each, "server_processor_seconds"),
            f"{each['client_peak_megabytes']:,.0f}",
            f"{each['server_peak_megabytes']:,.0f}",
            f"{each['disk_bytes_per_message']:,.0f}" if "disk_bytes_per_message" in each else "",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, "", "us: microseconds of processor time for each message.", ""]


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
