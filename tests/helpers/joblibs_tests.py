"""joblib's own tests of `Parallel`, with lazyflow as the backend of processes.

``python tests/helpers/joblibs_tests.py`` takes those of the installed joblib, in which the names of
its backends of processes are changed; tests of its other backends are left out. The exit status is
pytest's.
"""

import re
import sys
import tempfile
from pathlib import Path

import joblib.test
import pytest

#: Changes of the source, by patterns.
CHANGES = {
    r"^( *)PROCESS_BACKENDS = .*": r'\1PROCESS_BACKENDS = ["loky"]',
    r"^ALL_VALID_BACKENDS = .*": 'ALL_VALID_BACKENDS = ["loky", BACKENDS["loky"]()]\n'
    'RETURN_GENERATOR_BACKENDS = {"loky": None}',
    r"^( *)ALL_VALID_BACKENDS(\.append| \+=).*": r"\1pass",
    r"^import joblib$": "import joblib\nimport lazyflow.interop.joblib",
    r"^from joblib import Parallel, delayed$": "from joblib import Parallel, delayed\n"
    "import lazyflow.interop.joblib",
    '"loky"': '"lazyflow"',
}

#: Tests that are left out, by what they are about.
LEFT_OUT = {
    "test_nested_parallel_warnings": "a warning of multiprocessing, which it can't be below",
    "test_error_capture": "the attribute _workers",
    "test_backend_context_manager": "the class LokyBackend",
    "test_backend_hinting_and_constraints": "the class; lazyflow's has threads for sharedmem",
    "test_invalid_backend_hinting_and_constraints": "the same",
    "test_auto_memmap_on_arrays_from_generator": "files; lazyflow's arrays are shared memory",
    "test_memmapping_leaks": "the same",
    "test_multiple_generator_call_separated_gc": "two calls at once are an error there",
    "test_initializer_not_reused": "new workers for another initializer",
}


def main():
    source = Path(joblib.test.__file__).with_name("test_parallel.py").read_text()
    for pattern, new in CHANGES.items():
        source = re.sub(pattern, new, source, flags=re.MULTILINE)
    others = ["sequential", "threading", "spawn", "loky", "multiprocessing"]
    wanted = " and ".join(f"not {name}" for name in [*others, *LEFT_OUT])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_joblibs_own.py"
        path.write_text(source)
        return pytest.main([
            str(path), "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:xdist", "-W",
            "ignore", "--timeout", "60", "--tb=short", "-k", wanted,
        ])


if __name__ == "__main__":
    sys.exit(main())
