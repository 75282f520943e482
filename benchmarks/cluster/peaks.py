"""The most memory that a process has, as Linux counts it."""

from __future__ import annotations

from pathlib import Path


def forget_peak(process: object) -> None:
    """Let the system count a process's peak from here on, where it can."""
    path = Path(f"/proc/{process}/clear_refs")
    if path.exists():
        path.write_text("5")


def peak_of(process: object) -> float:
    """Return the most bytes a process had in memory; 0 where nobody counts."""
    path = Path(f"/proc/{process}/status")
    lines = path.read_text().splitlines() if path.exists() else ()
    return next((float(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM")), 0.0)
