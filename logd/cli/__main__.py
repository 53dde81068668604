"""The command line as a file: for ``python -m logd.cli``, and for spark-submit, which takes files alone."""

from __future__ import annotations

from logd.cli.main import main

main(prog_name="logd")
