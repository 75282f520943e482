"""Functions of arrays by NumPy's chapters.

A module imports those above it in this list only, which a test holds it to, and takes their
functions as plain names. The table of names.py, which says what is public, is for others: users'
``la.name``, methods of arrays, which cannot import what imports them, and NumPy's dispatch.

``np.sum(x)``, ``la.sum(x)`` and ``x.sum()`` all come to one function: NumPy asks
``Array.__array_function__``, which finds it by `lazyflow.array.dispatch`; ``la.sum`` and the method
find it by name. It makes nodes of its arguments (arguments.py), puts a new node on top of them, and
returns an `Array` of that; nothing is computed. ``x + y`` is a ufunc, which NumPy hands to
``Array.__array_ufunc__`` and that to elementwise.py; ``np.add.reduce(x)`` goes to ufuncs.py.

    keywords                      what changes nothing here, and says so
    arguments                     arrays or what makes one, axes, ``order=``, ``out=``, ``where=``
    one_chunk                     NumPy's own functions along axes in one chunk
    mutators                      what to type instead of functions that write into arguments
    computed                      functions that look at values
    types                         promotion and kinds of dtypes
    storage.loading               arrays of memory, files and lazy values
    manipulation.axes             squeeze, transpose, moveaxis, atleast_1d
    manipulation.shaping          reshape, ravel, broadcast_to
    manipulation.joining          concatenate, stack, block
    manipulation.layout           rechunk, unify_chunks, view
    conversion                    asarray, array
    creation                      zeros, full, eye
    ranges                        arange, linspace, logspace
    indexing.index_arrays         index arrays in ``x[...]``
    indexing.nonzero              nonzero, argwhere
    indexing.setitem              ``x[key] = value``
    elementwise                   calls of ufuncs, where, clip, round, astype
    special                       sinc, fix, select and other functions of single elements
    indexing.taking               take, compress, insert, diagonal, triangles
    manipulation.rearranging      flip, roll, repeat, tile, split
    grids                         indices, meshgrid, unravel_index
    reductions.by_ufunc           ``reduce`` and ``accumulate`` of any ufunc
    reductions.objects            reductions of objects
    reductions.totals             sum, prod, min, max, any, all
    reductions.means              mean, var, std, average
    reductions.without_nan        nansum, nanmean, nanmax
    reductions.arg_extremes       argmin, argmax
    reductions.ranks              elements by their rank, of axes that no task should see whole
    reductions.quantiles          median, quantile, percentile
    reductions.bin_rules          how many bins a rule gives
    cumulative                    cumsum, cumprod
    sorting                       sort, argsort, partition, topk
    searching                     searchsorted, take_along_axis, choose
    manipulation.padding          pad
    sequences.neighbourhoods      coarsen, push
    comparison                    isclose, array_equal
    differences                   diff, gradient, unwrap, trapezoid
    sets                          unique, isin
    set_operations                intersect1d, setdiff1d, unique_counts
    sequences.bits                packbits, unpackbits
    sequences.convolutions        convolve, correlate
    sequences.polynomials         polyval, polyfit, vander
    histograms                    histogram, bincount, digitize, interp
    einstein                      einsum, and products of nodes whose axes have labels
    products                      dot, matmul, kron, tensordot, trace, cross
    statistics                    cov, corrcoef
    storage.store_targets         the part of a target that a region takes
    storage.checks                what is refused before writes, and said when one fails
    storage.storing               store
    storage.zarr_files            from_zarr, to_zarr
    storage.hdf5_files            to_hdf5
    storage.npy_stacks            from_npy_stack, to_npy_stack
    report                        which operations run together, and how
    ufuncs                        methods of ufuncs, and ufuncs as ``la.name``
"""
