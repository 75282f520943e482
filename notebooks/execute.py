"""Execute the notebooks beside this file and store what they show; with --check, store nothing.

    python notebooks/execute.py [--check] [NUMBER ...]

The kernel imports lazyflow from this checkout, needs the packages of the extra ``dev``, and works
in this folder. A cell that is tagged ``raises-exception`` must raise, any other must not.

What is stored is what the kernel answered, but for four things that would differ on your machine
or show nothing when the page is only read:

- folders of this checkout, of packages and of Python are left out of paths (`SHORTER`);
- the temporary files which ipykernel makes of cells are called ``notebook cell``;
- progress bars are text, in their last state: a stored widget shows its first one, 0 %;
- no times of execution, no version of Python.
"""

import argparse
import os
import re
import site
import sys
import sysconfig
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent

_FOLDERS = [*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()]
SHORTER = [
    (re.compile(r"[^\s'\"<>]*ipykernel_\d+[/\\]\d+\.py"), "notebook cell"),
    *[
        (re.compile(re.escape(folder + os.sep)), "")
        for folder in sorted({str(CHECKOUT), *_FOLDERS}, key=len, reverse=True)
    ],
]
OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")  # by what follows the carriage return in its line
NO_WIDGETS = "--IPKernelApp.exec_lines=import sys; sys.modules['ipywidgets'] = None"


def executed(path: Path, extra_arguments: list[str]) -> NotebookNode:
    """Return a notebook with the outputs of a fresh kernel.

    Raises `CellExecutionError` when a cell raises, and `ValueError` when one that should does not.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=extra_arguments,
        resources={"metadata": {"path": str(HERE)}},
    )
    search = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(search)})
    for cell in notebook.cells:
        if "raises-exception" in cell.metadata.get("tags", []) and not any(
            output.output_type == "error" for output in cell.outputs
        ):
            raise ValueError(f"tagged raises-exception, but raised nothing:\n{cell.source}")
    return notebook


def shorter(text: str) -> str:
    """Return a text without the parts of paths that differ from machine to machine.

    >>> shorter("made at /tmp/ipykernel_12/34.py:5")
    'made at notebook cell:5'
    """
    for long, short in SHORTER:
        text = long.sub(short, text)
    return text


def make_storable(notebook: NotebookNode) -> None:
    """Take out of the outputs what the module's docstring says."""
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                output.text = OVERWRITTEN.sub("", shorter(output.text))
            elif output.output_type == "error":
                output.evalue = shorter(output.evalue)
                output.traceback = [shorter(line) for line in output.traceback]
            else:
                for kind, content in output.data.items():
                    if kind.startswith("text/") or kind == "image/svg+xml":
                        output.data[kind] = shorter(content)


def main() -> int:
    """Execute all notebooks; return 1 when one does not do what it should."""
    parser = argparse.ArgumentParser(description="Execute the notebooks of this folder in place.")
    parser.add_argument("--check", action="store_true", help="execute, and write nothing")
    parser.add_argument("numbers", nargs="*", help="the first digits of those that are executed")
    given = parser.parse_args()
    check, failed = given.check, False
    for path in sorted(HERE.glob("*.ipynb")):
        if given.numbers and not path.name.startswith(tuple(given.numbers)):
            continue
        print(path.name, flush=True)
        try:
            notebook = executed(path, [] if check else [NO_WIDGETS])
        except (CellExecutionError, ValueError) as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            failed = True
            continue
        if not check:
            make_storable(notebook)
            nbformat.validate(notebook)
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
