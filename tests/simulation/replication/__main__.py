"""``python -m tests.simulation.replication --seeds N``: run seeds; ``--seed X --trace``: run one, and print it."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from contextlib import nullcontext

from tests.simulation.replication.life import live
from tests.simulation.replication.rules.mutations import RULES


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replication", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    rules = {rule.mutation.__name__: rule for rule in RULES}
    parser.add_argument(
        "--break",
        dest="mutation",
        choices=sorted(rules),
        help="break this on purpose, by its kinds of faults",
    )
    options = parser.parse_args(arguments)
    seeds = range(options.start, options.start + options.seeds) if options.seed is None else [options.seed]
    failed: list[int] = []
    faults: Counter[str] = Counter()
    rule = rules.get(options.mutation)
    broken, kinds, calm = (nullcontext, (), "") if rule is None else (rule.mutation, rule.kinds, rule.calm)
    begin = time.process_time()
    for seed in seeds:
        try:
            with broken():
                faults += live(seed, print if options.trace else None, kinds=kinds, calm=calm)[0]
        except Exception:
            traceback.print_exc()
            print(f"seed {seed} failed: python -m tests.simulation.replication --seed {seed} --trace", flush=True)
            failed.append(seed)
            if not options.keep_going:
                break
    spent = time.process_time() - begin
    print(f"{len(seeds)} seeds, {len(failed)} failed {failed or ''}; {spent:.1f} s of CPU")
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(faults.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
