"""Files that an import leaves for machines: its report as JSON, and metrics for node_exporter's textfile collector."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field

from logd.cli.terminal.exits import complain
from logd.errors import ConfigurationError

if TYPE_CHECKING:
    from logd.spark.importer.report import ImportReport

#: Files with other names are not read by the textfile collector.
_SUFFIX = ".prom"


@define
class OutcomeFiles:
    """Writes the files that were asked for, after a success and after a failure. A file that cannot be written is told.

    ``report`` and ``metrics`` are paths or None. Raises ConfigurationError at once for a path that cannot be meant.
    """

    to: str
    report: str | None = None
    metrics: str | None = None
    clock: Callable[[], float] = time.time
    _began: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.metrics is not None and not self.metrics.endswith(_SUFFIX):
            raise ConfigurationError(
                f"--metrics {self.metrics!r} does not end in {_SUFFIX}: the textfile collector reads no other files"
            )
        for option, path in (("--report", self.report), ("--metrics", self.metrics)):
            if path is not None and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
                raise ConfigurationError(f"{option} {path!r}: there is no such folder; create it")
        self._began = self.clock()

    @contextmanager
    def told_of_failure(self) -> Iterator[None]:
        """Write the files if the block is left by an error or a signal, which is raised again."""
        try:
            yield
        except BaseException as error:
            text = str(error) or type(error).__name__
            self._write({"to": self.to, "error": {"kind": type(error).__name__, "text": text}}, None)
            raise

    def succeeded(self, value: Mapping[str, Any], done: ImportReport | None = None) -> None:
        """Write ``value`` as the report and, with metrics, those of ``done``."""
        self._write({**value, "error": None}, done)

    def _write(self, value: Mapping[str, Any], done: ImportReport | None) -> None:
        seconds = self.clock() - self._began
        if self.report is not None:
            _replace(self.report, json.dumps({"seconds": round(seconds, 3), **value}, indent=1) + "\n")
        if self.metrics is not None and not (done is not None and done.dry_run):
            from logd.spark.importer.import_metrics import metrics_text

            former = ""
            with suppress(OSError, ValueError):
                former = Path(self.metrics).read_text(encoding="utf-8")
            _replace(self.metrics, metrics_text(self.to, self.clock(), seconds, done, former))


def _replace(path: str, text: str) -> None:
    """Write a file so that readers see the former one or the whole new one. Its neighbour has no name they look for."""
    beside = f"{path}.{os.getpid()}.new"
    try:
        try:
            Path(beside).write_text(text, encoding="utf-8")
            os.replace(beside, path)
        finally:
            Path(beside).unlink(missing_ok=True)
    except OSError as error:
        complain(f"{path} was not written: {error.strerror or error}; what was loaded is not changed by that")
