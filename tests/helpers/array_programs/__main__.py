"""Differences, counted: ``PYTHONPATH=.:tests/helpers python -m array_programs --count 500``."""

import argparse
import collections
import pathlib
import sys
import time

from array_programs.explained import explanation
from array_programs.program import make, parse, run
from array_programs.shrinking import shrunk


def differences(seeds, tell=None):
    """Run programs; return what differs and is not explained, and counts of all by class."""
    found = []
    counts = collections.Counter()
    for seed in seeds:
        different, compared = run(make(seed))
        counts["programs"] += 1
        counts["comparisons"] += compared
        if different is None:
            continue
        reason = explanation(different)
        counts[f"explained: {reason}" if reason else different.why] += 1
        if reason is None:
            found.append(different)
            if tell is not None:
                tell(different)
    return found, counts


def show(different):
    """Print a difference with the code that shows it."""
    small = shrunk(different)
    print(f"\n# seed {small.program.seed}: {small.why} in {small.line}")
    print(f"# {small.what}")
    print(small.program, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="array_programs", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--count", type=int, default=500, help="of programs")
    parser.add_argument("--only", default="", help="tell differences whose step has this text")
    parser.add_argument("--file", type=pathlib.Path, help="run the code of a program")
    options = parser.parse_args()
    if options.file:
        different, _ = run(parse(options.file.read_text()))
        print("the same" if different is None else f"{different.why}: {different.what}")
        return different is not None
    started = time.perf_counter()
    found, counts = differences(
        range(options.seed, options.seed + options.count),
        lambda each: show(each) if options.only in str(each.line) else None,
    )
    print()
    for name, count in counts.most_common():
        print(f"{count:8,} {name}")
    print(f"{time.perf_counter() - started:8.0f} seconds")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
