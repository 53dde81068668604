"""The paper's Figures 4 and 5, and the latency curves, as SVG by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

_SIZE = (9.0, 4.5)


def draw(result: Mapping[str, Any], folder: str) -> list[str]:
    """Write the figures of a comparison into ``folder``, and return their paths. Raises ImportError without matplotlib.

    The same result gives the same bytes, so that a repetition shows in version control only where figures differ.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "logd"
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    def finished(name: str) -> str:
        path = os.path.join(folder, name)
        pyplot.tight_layout()
        pyplot.savefig(path, metadata={"Date": None})
        pyplot.close()
        return path

    figures: Sequence[Mapping[str, Any]] = result["figures"]
    paths = []
    for part, name, title in (
        ("produce", "figure-4-producers.svg", "Producers (Figure 4 of the paper)"),
        ("consume", "figure-5-consumers.svg", "Consumers (Figure 5 of the paper)"),
    ):
        rows = [each for each in figures if each["part"] == part]
        if rows:
            _bars(pyplot, rows, title)
            paths.append(finished(name))
    rows = [each for each in figures if each["part"] == "latency"]
    if rows:
        _curves(pyplot, rows)
        paths.append(finished("latency-curves.svg"))
    return paths


def _bars(pyplot: Any, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    names = list(dict.fromkeys(_label(each) for each in rows))
    batches = sorted({each["batch"] for each in rows}, key=lambda batch: batch or 1 << 30)
    width = 0.8 / len(batches)
    _, axes = pyplot.subplots(figsize=_SIZE)
    for index, batch in enumerate(batches):
        its = {_label(each): each for each in rows if each["batch"] == batch}
        places = [at + index * width for at, name in enumerate(names) if name in its]
        chosen = [its[name] for name in names if name in its]
        rates = [each["messages_per_second"] for each in chosen]
        spread = [
            each["spread"].get("messages_per_second", (rate, rate)) for each, rate in zip(chosen, rates, strict=True)
        ]
        errors = [
            [rate - low for rate, (low, _) in zip(rates, spread, strict=True)],
            [high - rate for rate, (_, high) in zip(rates, spread, strict=True)],
        ]
        label = f"batch of {batch}" if batch else "one message a call, default batches"
        axes.bar(places, rates, width, yerr=errors, capsize=2, label=label)
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(names))], names, rotation=30, ha="right")
    axes.set_yscale("log")
    axes.set_ylabel("messages a second (median; least and greatest)")
    axes.set_title(title)
    axes.grid(axis="y", alpha=0.3)
    axes.legend()


def _curves(pyplot: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    _, axes = pyplot.subplots(figsize=_SIZE)
    for name in dict.fromkeys(_label(each) for each in rows):
        its = [each for each in rows if _label(each) == name and each["latency_ms_median"] is not None]
        rates = [each["reached_per_second"] for each in its]
        (line,) = axes.plot(rates, [each["latency_ms_median"] for each in its], marker="o", label=f"{name}, median")
        axes.plot(
            rates, [each["latency_ms_99"] for each in its], "--", marker="x", color=line.get_color(), label="99 %"
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("messages a second")
    axes.set_ylabel("milliseconds from due to read")
    axes.set_title("Latency against rate")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", ncols=2)


def _label(row: Mapping[str, Any]) -> str:
    system, client = str(row["system"]), str(row["client"])
    return client if client.startswith(system) else f"{system}, {client}"
