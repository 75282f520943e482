"""``python -m lazyflow``: the demo, and work to look at on the dashboard."""

import sys

USAGE = """usage: python -m lazyflow COMMAND [options]

commands:
  demo              train two classifiers on real data, as graphs, and check them
  dashboard --demo  run graphs, and serve the live page that shows them

--help after a command lists its options."""


def main(argv: list[str]) -> int:
    """Run one command; returns the exit status."""
    if argv and argv[0] == "demo":
        from lazyflow.demo import main as demo

        return demo(argv[1:])
    if argv and argv[0] == "dashboard":
        from lazyflow.diagnostics.dashboard.live import main as busy

        return busy(argv[1:])
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    print(f"python -m lazyflow: no command {argv[0]!r}\n\n{USAGE}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
