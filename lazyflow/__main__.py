"""``python -m lazyflow``: the demo, the dashboard at work, and facts for bug reports."""

import sys

USAGE = """usage: python -m lazyflow COMMAND [options]

commands:
  demo              train two classifiers on real data, as graphs, and check them
  dashboard --demo  run graphs, and serve the live page that shows them
  info              print versions, cores, limits and settings, for bug reports

--help after a command lists its options."""


def main(argv: list[str]) -> int:
    """Run one command; returns the exit status."""
    if argv and argv[0] == "demo":
        from lazyflow.demo import main as demo

        return demo(argv[1:])
    if argv and argv[0] == "dashboard":
        from lazyflow.diagnostics.dashboard.server import main as busy

        return busy(argv[1:])
    if argv == ["info"]:
        from lazyflow.diagnostics.environment import environment

        print(environment())
        return 0
    if argv[:1] == ["info"]:
        is_question = argv[1:] in (["-h"], ["--help"])
        print("usage: python -m lazyflow info", file=sys.stdout if is_question else sys.stderr)
        return 0 if is_question else 2
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    print(f"python -m lazyflow: no command {argv[0]!r}\n\n{USAGE}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
