"""Functions of arrays by NumPy's chapters.

A module imports those above it in this list only, which a test holds it to, and takes their
functions as plain names. The table of names.py, which says what is public, is for others: users'
``la.name``, methods of arrays, which cannot import what imports them, and NumPy's dispatch.

``np.sum(x)``, ``la.sum(x)`` and ``x.sum()`` all come to one function: NumPy asks
``Array.__array_function__``, which finds it by `lazyflow.array.dispatch`; ``la.sum`` and the method
find it by name. It makes nodes of its arguments (arguments.py), puts a new node on top of them, and
returns an `Array` of that; nothing is computed. ``x + y`` is a ufunc, which NumPy hands to
``Array.__array_ufunc__`` and that to elementwise.py; ``np.add.reduce(x)`` goes to ufuncs.py.

    arguments                 arrays or what makes one, axes, ``order=``, ``out=``, ``where=``
    one_chunk                 NumPy's own functions along axes in one chunk
    computed                  functions that look at values, or write into arguments
    types                     promotion and kinds of dtypes
    storage.loading           arrays of memory, files and lazy values
    manipulation.shaping      reshape, ravel, broadcast_to, squeeze, transpose, moveaxis
    manipulation.joining      concatenate, stack, block
    manipulation.layout       rechunk, unify_chunks, view
    creation                  asarray, array, zeros, full, eye
    indexing.index_arrays     index arrays in ``x[...]``; nonzero, argwhere
    ranges                    arange, linspace, logspace; indices, meshgrid, unravel_index
    indexing.setitem          ``x[key] = value``
    elementwise               calls of ufuncs, where, clip, round, astype; sinc, fix, select
    indexing.taking           take, compress, insert, diagonal, triangles
    manipulation.rearranging  flip, roll, repeat, tile, split
    reductions.totals         sum, prod, min, max, any, all; ``reduce`` of any ufunc
    reductions.means          mean, var, std, average
    reductions.without_nan    nansum, nanmean, nanmax
    reductions.arg_extremes   argmin, argmax
    reductions.ranks          elements by their rank, of axes that no task should see whole
    reductions.quantiles      median, quantile, percentile
    sorting                   sort, argsort, partition, topk, searchsorted, take_along_axis, choose
    manipulation.padding      pad
    sequences.neighbourhoods  coarsen, push
    comparison                isclose, array_equal
    differences               cumsum, cumprod, diff, gradient, unwrap, trapezoid
    sets                      unique, isin, intersect1d, setdiff1d, unique_counts
    sequences.bits            packbits, unpackbits
    sequences.polynomials     polyval, polyfit, vander, convolve, correlate
    histograms                histogram, bincount, digitize, interp, and how many bins a rule gives
    einstein                  einsum, and products of nodes whose axes have labels
    products                  dot, matmul, kron, tensordot, trace, cross
    statistics                cov, corrcoef
    storage.storing           store, its targets, and what is refused before
    storage.files             from_zarr, to_zarr, to_hdf5, from_npy_stack, to_npy_stack
    report                    which operations run together, and how
    ufuncs                    methods of ufuncs, and ufuncs as ``la.name``
"""
