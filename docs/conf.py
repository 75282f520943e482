"""How Sphinx builds the documentation; CONTRIBUTING.rst has the command. It needs no network."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

import lazyflow

project = "lazyflow"
author = "the lazyflow developers"
project_copyright = author
release = version = lazyflow.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_nb"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
default_role = "py:obj"  # `name` is a link where the name has a page, and plain text elsewhere

html_theme = "furo"
html_title = "lazyflow"
html_show_copyright = False

autosummary_generate = True
numpydoc_show_class_members = False  # the template of classes has them, with their docstrings

nb_execution_mode = "off"  # the notebooks are stored with what they show


# -- what Sphinx is told while it builds ----------------------------------------------------------


def _copy_notebooks(app: Sphinx, config: Any) -> None:
    """Copy the notebooks to a folder that git ignores, with attached pictures in their text.

    Sphinx follows links to folders and then takes the notebooks for files outside of its own;
    myst_nb does not read attachments. Links to source files have no page, so they become text.
    """
    copies = Path(app.srcdir, "notebooks")
    copies.mkdir(exist_ok=True)
    for path in Path(app.srcdir).parent.glob("notebooks/*.ipynb"):
        notebook = json.loads(path.read_text())
        for cell in notebook["cells"]:
            pictures = {
                f"(attachment:{name})": f"(data:{kind};base64,{''.join(data.split())})"
                for name, kinds in cell.pop("attachments", {}).items()
                for kind, data in kinds.items()
            }
            if cell["cell_type"] == "markdown":
                text = "".join(cell["source"])
                for attached, embedded in pictures.items():
                    text = text.replace(attached, embedded)
                cell["source"] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", text)
        text = json.dumps(notebook)
        copy = copies / path.name
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)


def _skip_of_sklearn(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what estimators inherit of scikit-learn: its text links to pages of its own."""
    module = getattr(getattr(obj, "fget", obj), "__module__", None) or ""
    return True if module.partition(".")[0] == "sklearn" else None


_tree_of_folder: dict[str, str] = {}


def _share_sidebar(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Make the sidebar of the pages of single functions once, and without these pages.

    Each page would make a list of all of them: with it the build takes several times as long.
    """
    toctree: Callable[..., str] | None = context.get("toctree")
    if toctree is None:
        return

    def without_functions(**options: Any) -> str:
        return toctree(**{**options, "maxdepth": 2})

    def shared(**options: Any) -> str:
        folder = pagename.rpartition("/")[0]
        if folder not in _tree_of_folder:
            tree = without_functions(**options)
            _tree_of_folder[folder] = re.sub(r" ?\bcurrent\b", "", tree)
        return _tree_of_folder[folder]

    context["toctree"] = shared if "/generated/" in pagename else without_functions


_PUBLIC = (
    "lazyflow", "lazyflow.array", "lazyflow.array.random", "lazyflow.config",
    "lazyflow.diagnostics", "lazyflow.errors", "lazyflow.learn", "lazyflow.schedulers",
    "lazyflow.testing.contract", "lazyflow.tune", "lazyflow.weights",
)


def _check_all_are_there(app: Sphinx, env: Any) -> None:
    """Warn of public names that no page describes."""
    from lazyflow.array.names import OF_NUMPY

    described = env.domains["py"].objects
    for name in _PUBLIC:
        module = import_module(name)
        names = {*module.__all__}
        if name == "lazyflow.array":
            names = {n for n in dir(module) if n[0] != "_"} - {*OF_NUMPY.split()}
        for missing in sorted(n for n in names if not _is_described(module, n, described)):
            logging.getLogger(__name__).warning("no page describes %s.%s", name, missing)


def _is_described(module: Any, name: str, described: Any) -> bool:
    found = getattr(module, name)
    own = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
    places = {f"{module.__name__}.{name}", own}
    if getattr(lazyflow, name, None) is found:
        places.add(f"lazyflow.{name}")
    return inspect.ismodule(found) or not places.isdisjoint(described)


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("config-inited", _copy_notebooks)
    app.connect("autodoc-skip-member", _skip_of_sklearn)
    app.connect("html-page-context", _share_sidebar, priority=400)  # before the theme, at 500
    app.connect("env-check-consistency", _check_all_are_there)
