"""In a worker: the user's modules are kept at the version that the caller has.

A finder in front of all others notes what is imported, and refuses a source that is not the
caller's version. Modules that only tasks import are looked at once per run, and reloaded when
their source has changed.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from lazyflow.schedulers.remote.failures import unreadable
from lazyflow.schedulers.remote.versions import Stat, is_users, stat_of
from lazyflow.store.pickling.functions import load_function


class Follower:
    """What this process knows of the caller's modules, and of its own.

    Attributes
    ----------
    broken
        Why no function can be opened: a module of the caller can't be had here.
    """

    def __init__(self) -> None:
        self.broken: RuntimeError | None = None
        self._versions: dict[str, tuple[int, int, int]] = {}
        self._refused: dict[str, str] = {}
        self._mine: dict[str, tuple[str, Stat, int]] = {}  # with the caller's reloads so far
        self._path = list(sys.path)  # the caller's
        self._in_place = False
        self._old: dict[Any, Any] = {}  # of IPython's: objects of before reloads
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Called by each import."""
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if is_users(name, spec):
                    self._note(name, spec.origin)
                return spec
        return None

    def _note(self, name: str, origin: str) -> None:
        stat = stat_of(origin)
        why = self._refused.get(name)
        theirs = self._versions.get(name)
        if why is None and theirs is not None and theirs[:2] != stat:
            why = f"{origin} is not what the program has imported: it was edited since"
        if why is not None:
            raise RuntimeError(
                f"this worker can't have module {name} as the program has it: {why}. Reload it "
                f"there (importlib.reload({name}), or %autoreload 2 in a notebook), or start the "
                "program again."
            )
        if stat is not None:
            self._mine[name] = origin, stat, 0 if theirs is None else theirs[2]

    def opened(self, payload: bytes) -> tuple[Any, bool]:
        """Return a function that was sent, and whether tasks may share it: it is code alone.

        Raises
        ------
        RuntimeError
            What it consists of is another version here.
        SerializationError
            It can't be unpickled.
        """
        if self.broken is not None:
            raise RuntimeError(*self.broken.args)
        try:
            return load_function(payload)
        except (MemoryError, RuntimeError):
            raise
        except BaseException as error:
            raise unreadable("the function", error) from error

    def follow(self, versions: tuple[Any, ...]) -> None:
        """Bring modules to the caller's versions: the arguments are fields of `ModuleVersions`."""
        before = self._versions
        _, _, path, self._versions, self._refused, self._in_place = versions
        for name in before.keys() - self._versions.keys():  # the program has removed it
            sys.modules.pop(name, None)
            self._mine.pop(name, None)
        if path != self._path:
            sys.path[:] = path + [each for each in sys.path if each not in self._path]
            self._path = path
            importlib.invalidate_caches()
        mine = {
            name: (*stat, reloads)
            for name, (_, stat, reloads) in self._mine.items()
            if name in sys.modules
        }
        self.broken = None
        # In the order in which the program ran them: `sys.modules` has them as they were done.
        self._reload([n for n, theirs in self._versions.items() if mine.get(n, theirs) != theirs])

    def look(self) -> None:
        """Reload what only tasks have imported, and was edited."""
        own = self._mine.keys() - self._versions.keys()
        edited = [n for n in own if stat_of(self._mine[n][0]) != self._mine[n][1]]
        if edited:
            self._reload([n for n in tuple(sys.modules) if n in edited])

    def _reload(self, names: list[str]) -> None:
        """Reload modules, in this order."""
        if not names:
            return
        importlib.invalidate_caches()
        for name in names:
            try:
                if self._in_place:
                    from IPython.extensions.autoreload import superreload

                    superreload(sys.modules[name], importlib.reload, self._old)
                else:
                    importlib.reload(sys.modules[name])
            except BaseException as error:
                self.broken = RuntimeError(
                    f"module {name} was reloaded by the program, and can't be in its worker: "
                    f"{type(error).__name__}: {error}"
                )
