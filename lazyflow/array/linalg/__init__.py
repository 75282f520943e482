"""Linear algebra of chunked matrices: ``la.linalg``, as ``np.linalg`` and ``dask.array.linalg``.

    >>> import lazyflow.array as la
    >>> x = la.random.default_rng(0).normal(size=(1000, 4), chunks=(300, 4))
    >>> q, r = la.linalg.qr(x)
    >>> la.linalg.norm(x - q @ r).compute() < 1e-12
    np.True_

Functions of ``np.linalg`` of chunked arrays come here. All are lazy: wrong shapes and types are
errors at the call, singular matrices when the result is computed, both as NumPy's. Stacks of
matrices are what they are in NumPy, each matrix whole in a block.

A tall or wide matrix is read in blocks of rows or columns (`qr`, `svd`, `lstsq`, `pinv`). Square
ones above 16 times ``config.chunk_bytes`` (128 MiB) are cut into panels or tiles (`solve`, `inv`,
`lu`, `cholesky`, `solve_triangular`, `det`, `slogdet`); smaller ones are whole in one task, where
LAPACK takes all cores. So are matrices of any size for `eigh`, `eig`, and QR or singular values of
those less than four times as high as wide, or wide as high: what they need must fit in memory.

Residuals and orthogonality are those of LAPACK's Householder and pivoting methods, eps times a
small multiple of the size. Columns of Q, and singular and eigenvectors, may have other signs than
NumPy's.
"""

# From the bottom up:
#
#   matrices            checks at the call, results, matrices that are whole in a task
#   tiles               nodes of LU in panels, of Cholesky factors and triangular systems in tiles
#   decompositions, solving, norms, matrix_products    the functions

from numpy.linalg import LinAlgError as LinAlgError

from lazyflow.array.linalg.decompositions import (
    cholesky,
    compression_level,
    compression_matrix,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    lu,
    qr,
    sfqr,
    svd,
    svd_compressed,
    svdvals,
    tsqr,
)
from lazyflow.array.linalg.matrices import EigResult, QRResult, SlogdetResult, SVDResult
from lazyflow.array.linalg.matrix_products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from lazyflow.array.linalg.norms import cond, matrix_norm, norm, vector_norm
from lazyflow.array.linalg.solving import (
    det,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "EigResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult", "cholesky",
    "compression_level", "compression_matrix", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "inv", "lstsq", "lu", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "sfqr",
    "slogdet", "solve", "solve_triangular", "svd", "svd_compressed", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "tsqr", "vecdot", "vector_norm",
]
