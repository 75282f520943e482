"""`python -m benchmarks`: list the benchmarks, or run the one that is named."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import (
    actors,
    arrays,
    cluster,
    engines,
    interrupts,
    larger_than_memory,
    neighbours,
    observers,
    overhead,
    processes,
    results,
    scale,
    server,
    serving,
    soak,
    solvers,
    survey,
    survey_memory,
    tune,
)

BENCHMARKS = {
    "overhead": overhead,
    "observers": observers,
    "processes": processes,
    "actors": actors,
    "arrays": arrays,
    "engines": engines,
    "cluster": cluster,
    "survey": survey,
    "survey-memory": survey_memory,
    "memory": larger_than_memory,
    "neighbours": neighbours,
    "solvers": solvers,
    "tune": tune,
    "scale": scale,
    "server": server,
    "serving": serving,
    "all": results,
    "soak": soak,
    "interrupts": interrupts,
}


def main(argv: Sequence[str]) -> int:
    """Run the benchmark named first in `argv` with the rest as its options; return the status."""
    if not argv or argv[0] in ("-h", "--help"):
        print("python -m benchmarks NAME [options]; --help after a name lists its options\n")
        for name, module in BENCHMARKS.items():
            print(f"  {name:13} {(module.__doc__ or '').splitlines()[0]}")
        return 0
    if argv[0] not in BENCHMARKS:
        names = ", ".join(BENCHMARKS)
        print(f"no benchmark is named {argv[0]!r}; there is: {names}", file=sys.stderr)
        return 2
    return BENCHMARKS[argv[0]].main(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
