"""Kernels compiled by llvmlite, in a thread of their own or at once; one at a time.

`Kernel.ready` decides whether a kernel is used for blocks, and when it is compiled; the ufuncs of
`elementary` are compiled at their first use.
llvmlite loads with the first kernel. Each kernel has an engine of its own, since LLVM gives the
memory of code back with all that an engine has: 1.2 ms more for each. The next compilation frees
the engines of kernels whose function is gone. A fork waits for the kernel that is being compiled,
since LLVM's locks would stay closed in the child; so does the end of the program.

The path of a kernel::

    NEW --- calls add up to PAYS ---> QUEUED --- `_thread` compiles ---> READY, or REFUSED
     |                                  |                                  |
     +----------------------------------+- a call of WAITS compiles it ----+

    >>> kernel = Kernel(lambda: "no text of LLVM's", lambda function: None)
    >>> compile_now(kernel, None)
    >>> kernel.state, kernel.function
    ('refused', None)

State of the process, and the lock under which it changes::

    _compiler, _no_compiler, _loaded, _ended     `_compiling`, which is held while LLVM works
    _queue, _running, _thread                    `_changed`
    _dropped                                     none: functions are put in as they go
    _compiling, _changed                         replaced in the child of a fork
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import threading
import uuid
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.errors import LazyflowWarning
from lazyflow.finalizers import Gone, gone
from lazyflow.store.private_files import open_private, private_folder
from lazyflow.system import at_fork

# -- compiled code on disk ----------------------------------------------------------------
#
# Small files in the user's cache folder, replaced by rename.
#
# They are run as machine code, so a file counts as missing unless it and its folder are this user's
# alone (`store.private_files`), and it is what was written under that name. Failed writes are
# ignored. There are at most `_MOST` files: those that were used last.

_HEAD = b"lazyflow kernel 2\n"
_MOST = 2000  # files of some 10 kB each; a guess


def default_folder() -> str | None:
    """Return the folder for kernels when none is set; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "lazyflow", "kernels") if os.path.isabs(base) else None


def folder() -> str | None:
    """Return where kernels are kept, or None."""
    found = config.get("kernel_cache")
    return None if found is False else found or default_folder()


def _sum(name: str, code: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + code).digest()


def read(folder: str, name: str) -> bytes | None:
    """Return the object code of a name, or None."""
    try:
        with (
            private_folder(folder) as opened,
            open(open_private(name, opened, os.O_RDONLY), "rb") as file,
        ):
            found = file.read()
            with suppress(OSError):
                os.utime(file.fileno())  # it was used
    except OSError:
        return None
    start = len(_HEAD) + 32
    code = found[start:]
    return code if found[:start] == _HEAD + _sum(name, code) else None


def write(folder: str, name: str, code: bytes) -> None:
    """Keep object code in a file, if that is possible."""
    with suppress(OSError), private_folder(folder) as opened:
        new = f".new-{uuid.uuid4().hex}"
        fd = open_private(new, opened, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with open(fd, "wb") as file:
                file.write(_HEAD + _sum(name, code) + code)
            os.replace(new, name, src_dir_fd=opened, dst_dir_fd=opened)
        except BaseException:
            os.unlink(new, dir_fd=opened)
            raise
        _remove_oldest(opened)


def _remove_oldest(folder: int) -> None:
    """Remove files that were not used for longest, a quarter, when there are too many."""
    names = os.listdir(folder)
    if len(names) <= _MOST:
        return
    found = []
    for name in names:
        with suppress(OSError):  # another process removed it
            found.append((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime, name))
    for _, name in sorted(found)[: len(found) - 3 * _MOST // 4]:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)


# -- kernels, and the thread that compiles them ---------------------------------------------

NEW, QUEUED, READY, REFUSED = "new", "queued", "ready", "refused"

#: Elements times operations from which a kernel is compiled: compiling was measured to take 14 to
#: 27 ms, beside the run.
PAYS = 1 << 21
#: From this on a block takes NumPy's functions longer than the compilation, which it waits for.
WAITS = 1 << 25


class Kernel:
    """A function that is compiled as soon as that pays.

    write
        Returns the text of its module, with NAME for its name.
    check
        Called with the compiled function; returns what is wrong with its results, or None.
    state
        NEW, QUEUED, READY or REFUSED; `why` is the reason of a refusal.
    work
        The elements times operations that it was not there for so far.
    function
        The compiled function of the addresses of pointers and of numbers, once it is READY.
    """

    def __init__(self, write: Callable[[], str], check: Callable[[Any], str | None]) -> None:
        self.write = write
        self.check = check
        self.state = NEW
        self.why = ""
        self.work = 0
        self.milliseconds = 0.0
        self.from_disk = False
        self.function: Any = None

    def ready(self, work: int) -> bool:
        """Tell whether the function can be called; start compiling it if that pays.

        Small work goes on without it meanwhile, by NumPy's functions.

        work
            The elements times operations that it would do now.
        """
        mode = config.get("kernels")
        if mode == "numpy":
            return False
        if self.state in (NEW, QUEUED):
            self.work += work
            if mode == "native" or work >= WAITS:
                compile_now(self, folder())
            elif self.work >= PAYS:
                request(self, folder())
        return self.state == READY


class _Compiler:
    def __init__(self) -> None:
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        cpu = llvm.get_host_cpu_name()
        able = llvm.get_host_cpu_features()
        if not able.get("sse4.1"):  # floor and the like would be calls of a library
            raise RuntimeError(f"kernels need SSE 4.1, which {cpu} doesn't have")
        features = able.flatten()
        self._llvm = llvm
        target = llvm.Target.from_default_triple()
        self._new_machine = partial(
            target.create_target_machine, cpu=cpu, features=features, opt=2)
        self._machine = self._new_machine()
        versions = (np.__version__, llvmlite.__version__)
        self._made_for = repr((versions, cpu, features)).encode()

    def name(self, text: str) -> str:
        """Return a name that stands for the kernel's text, the processor and the versions."""
        return "k" + hashlib.sha256(self._made_for + text.encode()).hexdigest()[:48]

    def compile(self, text: str) -> bytes:
        module = self._llvm.parse_assembly(text)
        module.verify()
        return bytes(self._machine.emit_object(module))

    def load(self, code: bytes, name: str) -> Any:
        llvm = self._llvm
        # An engine owns its machine: disposing of two that share one ends the process.
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._new_machine())
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(name)
        if not address:
            raise RuntimeError(f"the object code has no function {name}")
        made: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
        _loaded[id(made)] = gone(made, _dropped.append, (id(made), engine))
        return made


_PROBE = "define i32 @probe(ptr %a) {\n ret i32 0\n}"  # LLVM 14 has no pointers without types

# The state of the process: one compiler, made when the first kernel asks for it, the functions that
# are loaded, and a queue of kernels that one thread compiles.
_compiler: _Compiler | None = None
_no_compiler = ""  # why there can be none
_loaded: dict[int, Gone] = {}  # for each function, by its id, with its engine
_dropped: deque[Gone] = deque()  # those whose function is gone
_compiling = threading.Lock()  # held while LLVM works
_changed = threading.Condition()  # guards the queue and the kernel that is being compiled
_queue: deque[tuple[Kernel, str | None]] = deque()
_running: list[Kernel] = []
_thread: threading.Thread | None = None
_ended = False


@lru_cache(1)
def flag_functions() -> tuple[int, int]:
    """Return the addresses of C's feclearexcept and fetestexcept."""
    own = ctypes.CDLL("libm.so.6")
    clear, test = (
        ctypes.cast(found, ctypes.c_void_p).value for found in (own.feclearexcept, own.fetestexcept)
    )
    return clear or 0, test or 0


@lru_cache(1)
def unavailable() -> str:
    """Return why no kernel can be compiled on this machine; empty if one can."""
    here = f"{platform.system()} on {platform.machine()}"
    if here != "Linux on x86_64":
        return f"kernels are generated for Linux on x86_64, this is {here}"
    try:
        flag_functions()
    except (OSError, AttributeError) as error:
        return f"the C library's floating-point flags can't be reached: {error}"
    return ""


def trial() -> str:
    """Compile a small function; return why that fails, empty if it does not."""
    if why := unavailable():
        return why
    with _compiling:
        try:
            _Compiler().compile(_PROBE)
        except (ImportError, RuntimeError) as error:
            return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


def compile_now(kernel: Kernel, folder: str | None) -> None:
    """Compile a kernel, or take it from the folder."""
    global _compiler
    start = perf_counter()
    with _compiling:
        if kernel.state in (READY, REFUSED) or _ended:
            return
        try:
            if why := unavailable():
                raise RuntimeError(why)
            _dispose()
            if _compiler is None:
                _compiler = _new_compiler()
            _make(_compiler, kernel, folder)
        except Exception as error:
            kernel.state, kernel.why = REFUSED, f"{type(error).__name__}: {error}"
        kernel.milliseconds = (perf_counter() - start) * 1e3


def _new_compiler() -> _Compiler:
    """Return the compiler; warn the first time that there is none: no kernel can be made then."""
    global _no_compiler
    if not _no_compiler:
        try:
            made = _Compiler()
            made.compile(_PROBE)
            return made
        except (ImportError, RuntimeError) as error:
            _no_compiler = " ".join(f"{type(error).__name__}: {error}".split())
            warnings.warn(
                f"no kernel for arrays can be compiled here ({_no_compiler}), so NumPy computes "
                "each step, which takes longer and more memory. An llvmlite that is too old is the "
                f"usual cause (installed: {_version_of('llvmlite')}); type: pip install "
                "'llvmlite>=0.45' 'numba>=0.62'; or lazyflow.config.set(kernels='numpy') to do "
                "without kernels. This warning comes once.",
                LazyflowWarning, stacklevel=2,
            )
    raise RuntimeError(_no_compiler)


def _version_of(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _dispose() -> None:
    """Dispose of engines whose function is gone."""
    while _dropped:
        dead = _dropped.popleft()
        if _loaded.get(dead.then[0]) is dead:
            del _loaded[dead.then[0]]


def _make(compiler: _Compiler, kernel: Kernel, folder: str | None) -> None:
    text = kernel.write()
    name = compiler.name(text)
    code = None if folder is None else read(folder, name)
    kernel.from_disk = code is not None
    if code is None:
        code = compiler.compile(text.replace("NAME", name))
    function = compiler.load(code, name)
    if not kernel.from_disk:
        wrong = kernel.check(function)
        if wrong:
            kernel.state, kernel.why = REFUSED, wrong
            return
        if folder is not None:
            write(folder, name, code)
    kernel.function = function
    kernel.state = READY


def request(kernel: Kernel, folder: str | None) -> None:
    """Have a new kernel compiled in the background."""
    global _thread
    with _changed:
        if kernel.state != NEW or _ended:
            return
        if _thread is None:
            thread = threading.Thread(target=_work, name="lazyflow-kernels", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending, or there can't be more threads
                return
            _thread = thread
        kernel.state = QUEUED
        _queue.append((kernel, folder))
        _changed.notify_all()


def _work() -> None:
    while True:
        with _changed:
            while not _queue:
                _changed.wait()
            kernel, folder = _queue.popleft()
            _running.append(kernel)
        compile_now(kernel, folder)
        with _changed:
            _running.remove(kernel)
            _changed.notify_all()


def wait_compiled(timeout: float | None = None) -> bool:
    """Wait until no kernel is being compiled in the background.

    Parameters
    ----------
    timeout
        Seconds to wait at most; None: without a limit.

    Returns
    -------
    False if kernels were still being compiled after `timeout` seconds.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.wait_compiled(timeout=60)
    True
    """
    with _changed:
        return _changed.wait_for(lambda: not _queue and not _running, timeout)


def _before_fork() -> None:
    _compiling.acquire()
    _changed.acquire()


def _after_fork_in_parent() -> None:
    _changed.release()
    _compiling.release()


def _after_fork_in_child() -> None:
    global _compiling, _changed, _thread
    for kernel in [*_running, *[kernel for kernel, _ in _queue]]:
        if kernel.state == QUEUED:
            kernel.state = NEW
    _queue.clear()
    _running.clear()
    _compiling, _changed, _thread = threading.Lock(), threading.Condition(), None


def _at_exit() -> None:
    global _ended
    with _compiling:  # LLVM's own end must not meet it at work
        _ended = True
        # Kept for ever: at the interpreter's end llvmlite may be half gone.
        for each in (*_dropped, *_loaded.values(), _compiler):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(_at_exit)
