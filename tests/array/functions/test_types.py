"""What is known of the dtypes of arrays without their values."""

import numpy as np
import pytest

import lazyflow.array as la


def test_types():
    f, i, c = la.ones(3, dtype="f4"), la.ones((2, 2), dtype="i8"), la.ones(1, dtype="c8")
    for module in (la, np):
        assert module.result_type(f, i) == np.float64
        assert module.result_type(f, 2.5, True) == np.float32
        assert module.can_cast(f, "f8") is True
        assert module.can_cast(f, "i8") is False
        assert module.can_cast(f, "i8", "unsafe") is True
        assert module.common_type(f, i) is np.float64
        assert module.common_type(f, c) is np.complex64
        assert module.iscomplexobj(c) is True
        assert module.isrealobj(c) is False
        assert module.isrealobj(i) is True
    with pytest.raises(TypeError, match="non-numeric"):
        la.common_type(la.asarray(["a"]))
