"""The drawings of a result: the paper's Figures 4 and 5, latency against rate, and what both sides use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from logd.bench.systems.results import style
from logd.bench.systems.results.chosen import (
    BATCHES,
    Bar,
    Row,
    at_batch,
    at_best_batch,
    at_most_messages,
    figure,
    for_each_message,
    has_disk,
    is_logd,
    label,
    names_of,
    number,
    rows_of,
)

_INCHES = 10.0
_ROW_INCHES, _FRAME_INCHES = 0.32, 1.5
_BAR_HEIGHT = 0.7
#: Width of the numbers behind the bars, as a share of the longest bar.
_NUMBERS = 1.45
_SIDES = (("client", style.BLUE), ("server", style.ORANGE))


@frozen
class Panel:
    """Bars of one kind: for each label its row, and for each series what is taken from the row."""

    title: str
    unit: str
    rows: Mapping[str, Row]
    series: Sequence[tuple[str, str, Callable[[Row], Bar]]]


def draw(result: Mapping[str, Any], folder: str) -> list[str]:
    """Write the drawings into ``folder``, and return their paths. Raises ImportError without matplotlib.

    The same result and the same matplotlib give the same bytes, so that a repetition shows in version control only
    where figures differ.
    """
    pyplot = style.start()
    paths = []

    def save(name: str, drawing: Any) -> None:
        paths.append(str(Path(folder, name)))
        style.save(pyplot, drawing, Path(folder, name))

    for name, title, panels in panels_of(result):
        if any(panel.rows for panel in panels):
            names = [each for each in names_of(result) if any(each in panel.rows for panel in panels)]
            save(name, _bars(pyplot, title, panels, names))
    rows = [each for each in rows_of(result, "latency") if each["latency_ms_median"] is not None]
    if rows:
        save("latency-against-rate.svg", _curves(pyplot, result, rows))
    return paths


def panels_of(result: Mapping[str, Any]) -> list[tuple[str, str, list[Panel]]]:
    """Return the name of each drawing of bars, its title and its panels."""
    produced, consumed = rows_of(result, "produce"), rows_of(result, "consume")
    rate = [("", style.GREY, figure("messages_per_second"))]
    both = ("producing", at_best_batch(produced)), ("consuming", at_most_messages(consumed))
    stored = {name: row for name, row in both[0][1].items() if has_disk(row, result["size"])}

    def sides(take: Callable[[str], Callable[[Row], Bar]], name: str) -> list[tuple[str, str, Callable[[Row], Bar]]]:
        return [(side, colour, take(name.format(side))) for side, colour in _SIDES]

    return [
        (
            "figure-4-producers.svg",
            f"Producers: messages of {result['size']} bytes sent and acknowledged in a second",
            [Panel(title, "messages a second", at_batch(produced, batch), rate) for batch, title in BATCHES.items()],
        ),
        (
            "figure-5-consumers.svg",
            f"Consumers: messages of {result['size']} bytes read in a second, from the beginning of the log",
            [Panel("", "messages a second", both[1][1], rate)],
        ),
        (
            "processor-time.svg",
            "Processor time for each message, of the client and of the server",
            [Panel(what, "microseconds", rows, sides(for_each_message, "{}_processor_seconds")) for what, rows in both],
        ),
        (
            "memory.svg",
            "Memory at its peak, of the client and of the server",
            [Panel(what, "megabytes", rows, sides(figure, "{}_peak_megabytes")) for what, rows in both],
        ),
        (
            "disk.svg",
            f"Bytes on the disk for each message of {result['size']} bytes",
            [Panel("", "bytes", stored, [("", style.GREY, figure("disk_bytes_per_message"))])],
        ),
    ]


def _bars(pyplot: Any, title: str, panels: Sequence[Panel], names: Sequence[str]) -> Any:
    height = _FRAME_INCHES + _ROW_INCHES * len(names) * (1 + 0.5 * (len(panels[0].series) - 1))
    drawing, grid = pyplot.subplots(
        1, len(panels), figsize=(_INCHES, height), sharey=True, squeeze=False, layout="constrained"
    )
    drawing.suptitle(title, fontsize=12)
    for axes, panel in zip(grid[0], panels, strict=True):
        _panel(axes, panel, names)
    first = grid[0][0]
    first.set_yticks(range(len(names)), names)
    first.invert_yaxis()
    for tick in first.get_yticklabels():
        if is_logd(tick.get_text()):
            tick.set_fontweight("bold")
    if len(panels[0].series) > 1:
        drawing.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=len(panels[0].series))
    return drawing


def _panel(axes: Any, panel: Panel, names: Sequence[str]) -> None:
    thick = _BAR_HEIGHT / len(panel.series)
    longest = 0.0
    for index, (side, colour, take) in enumerate(panel.series):
        bars = {at: take(panel.rows[name]) for at, name in enumerate(names) if name in panel.rows}
        places = [at - _BAR_HEIGHT / 2 + (index + 0.5) * thick for at in bars]
        values = [bar.value for bar in bars.values()]
        spread = [
            [max(0.0, bar.value - bar.low) for bar in bars.values()],
            [bar.high - bar.value for bar in bars.values()],
        ]
        single = len(panel.series) == 1
        colours = [style.BLUE if single and is_logd(names[at]) else colour for at in bars]
        axes.barh(
            places,
            values,
            thick * 0.9,
            xerr=spread,
            color=colours,
            label=side or None,
            error_kw={"ecolor": style.INK, "elinewidth": 1, "capsize": 2},
        )
        for place, bar in zip(places, bars.values(), strict=True):
            axes.annotate(
                number(bar.value), (bar.high, place), (4, 0), textcoords="offset points", va="center", fontsize=8
            )
        longest = max([longest, *(bar.high for bar in bars.values())])
    for at, name in enumerate(names):
        if name not in panel.rows:
            axes.annotate("not measured", (0, at), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_xlim(0, longest * _NUMBERS or 1)
    axes.xaxis.set_major_locator(style.few_ticks())
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_title(panel.title)
    axes.set_xlabel(panel.unit)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _curves(pyplot: Any, result: Mapping[str, Any], rows: Sequence[Row]) -> Any:
    drawing, grid = pyplot.subplots(1, 2, figsize=(_INCHES, 5.2), sharey=True, layout="constrained")
    drawing.suptitle(f"Time until a message of {result['size']} bytes has been read, at a given rate", fontsize=12)
    parts = (
        ("latency_ms_median", "half of the messages were faster"),
        ("latency_ms_99", "99 % of the messages were faster"),
    )
    names = list(dict.fromkeys(label(each) for each in rows))
    for axes, (key, title) in zip(grid, parts, strict=True):
        for index, name in enumerate(names):
            its = [each for each in rows if label(each) == name]
            bars = [figure(key)(each) for each in its]
            axes.errorbar(
                [each["reached_per_second"] for each in its],
                [bar.value for bar in bars],
                [[bar.value - bar.low for bar in bars], [bar.high - bar.value for bar in bars]],
                label=name,
                color=style.LINES[index % len(style.LINES)],
                marker=style.MARKS[index % len(style.MARKS)],
                linestyle="-" if index < len(style.LINES) else "--",
                linewidth=2.5 if is_logd(name) else 1.2,
                elinewidth=1,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: number(value))
            axis.set_minor_locator(style.no_ticks())
        axes.set_title(title)
        axes.set_xlabel("messages a second")
        axes.grid()
    grid[0].set_ylabel("milliseconds")
    drawing.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return drawing
