"""The command line as a module: ``python -m logd`` is ``logd``."""

from __future__ import annotations

from logd.cli.main import main

main(prog_name="logd")
