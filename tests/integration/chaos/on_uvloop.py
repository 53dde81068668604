"""Runs a Python command with Twisted's reactor on uvloop: ``python on_uvloop.py PYTHON -c CODE ...`` or ``-m MODULE``.

It is put before the command lines of brokers and clients; PYTHON is not used.
"""

from __future__ import annotations

import runpy
import sys

import uvloop
from twisted.internet import asyncioreactor


def main(arguments: list[str]) -> None:
    """Install the reactor, and run the program as if Python had been given these arguments."""
    asyncioreactor.install(uvloop.new_event_loop())
    _, kind, program, *rest = arguments
    sys.argv = [kind, *rest]
    if kind == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(program, {"__name__": "__main__"})  # the command of a test


if __name__ == "__main__":
    sys.path[0] = ""  # not the folder of this file, whose modules are no programs' own
    main(sys.argv[1:])
