"""``python -m tests.simulation --seeds N --start S``: run seeds; ``--seed X --trace``: run one and print its events."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from contextlib import nullcontext

from logd.testing.memory.disk import PowerLoss
from tests.simulation.mutations.mutations import MUTATIONS
from tests.simulation.simulation import simulate


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    parser.add_argument("--break", dest="mutation", choices=sorted(MUTATIONS), help="break this on purpose")
    options = parser.parse_args(arguments)
    seeds = range(options.start, options.start + options.seeds) if options.seed is None else [options.seed]
    failed = []
    begin = time.process_time()
    broken = MUTATIONS[options.mutation] if options.mutation else nullcontext
    for seed in seeds:
        try:
            with broken():
                report = simulate(seed, print if options.trace else None)
        except (Exception, PowerLoss):
            traceback.print_exc()
            print(f"seed {seed} failed: python -m tests.simulation --seed {seed} --trace", flush=True)
            failed.append(seed)
            if not options.keep_going:
                break
        else:
            if options.seed is not None:
                print(report)
    spent = time.process_time() - begin
    print(
        f"{len(seeds)} seeds, {len(failed)} failed {failed or ''}; {spent:.1f} s of CPU, {spent / len(seeds):.3f} each"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
