"""``python -m lazyflow``: the demo."""

import sys

COMMANDS = {"demo": "train two classifiers on real data, as graphs, and check them"}


def main(argv: list[str]) -> int:
    """Run one command; returns the exit status."""
    if argv and argv[0] == "demo":
        from lazyflow.demo import main as demo

        return demo(argv[1:])
    out = sys.stdout if not argv or argv[0] in ("-h", "--help") else sys.stderr
    if out is sys.stderr:
        print(f"python -m lazyflow: no command {argv[0]!r}\n", file=out)
    print("usage: python -m lazyflow COMMAND [options]\n\ncommands:", file=out)
    for name, purpose in COMMANDS.items():
        print(f"  {name}  {purpose}; --help for its options", file=out)
    return 0 if out is sys.stdout else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
