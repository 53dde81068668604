"""The look of the figures, and their SVG: the same bytes for the same result, readable on light and dark pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Colours of Okabe and Ito's palette for all kinds of colour vision that are visible on white and on black.
BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"
GREY = "#8a8f98"
LINES = (BLUE, ORANGE, GREEN, RED, PINK, SKY, GREY)
MARKS = "os^DvPX*<>"
#: A colour that stands for that of the text, which is the page's: the reader's system says whether it is dark or light.
INK = "#010203"
_CSS = (
    "svg{color:#1f2328;background:#ffffff}"
    "@media (prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}"
    "*{stroke-linejoin:round;stroke-linecap:butt}"
)
_SETTINGS: Mapping[str, object] = {
    "svg.hashsalt": "logd",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "normal",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "grid.alpha": 0.25,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
}


def start() -> Any:
    """Return matplotlib's pyplot with the settings of the figures. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(_SETTINGS)
    from matplotlib import pyplot

    return pyplot


def few_ticks() -> Any:
    """Return what puts about three ticks at an axis, so that large numbers do not meet."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)


def no_ticks() -> Any:
    """Return what puts no ticks at an axis."""
    from matplotlib.ticker import NullLocator

    return NullLocator()


def save(pyplot: Any, drawing: Any, path: Path) -> None:
    """Write a drawing as SVG, with its text as text and without a date, and close it."""
    drawing.savefig(path, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    pyplot.close(drawing)
    path.write_text(themed(path.read_text(encoding="utf-8")), encoding="utf-8")


def themed(svg: str) -> str:
    """Return an SVG in the colours of the reader's scheme, without metadata and digits that nobody sees."""
    svg = re.sub(r" *<metadata>.*?</metadata>\n", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), svg)
    styled = re.sub(r"<style type=\"text/css\">.*?</style>", f"<style>{_CSS}</style>", svg, count=1, flags=re.DOTALL)
    return re.sub(r"[ \t]+$", "", styled.replace(INK, "currentColor"), flags=re.MULTILINE)
