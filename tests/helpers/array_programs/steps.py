"""What a step may do: code with places that are drawn (drawing.py), by how exact its result is.

``{x}`` is a variable, ``{x:if}`` one of these kinds, ``{x:*2}`` one of two axes; ``{y}`` fits it,
or is a number; ``{m}`` masks it; ``{axis}``, ``{axes}``, ``{key}`` ... are of its axes.
"""

#: Equal to NumPy's bits.
EXACT = """
{x} {op} {y}
{x} {op} {y}
{s} {op} {x}
{x} {compare} {y}
{x} {compare} {s}
{x:biu} {bits} {y:biu}
-{x:iufcO}
+{x:biufc}
~{x:biu}
abs({x:biufc})
{x:biuf} ** {k}
divmod({x:iuf}, {y:iuf})[{01}]
divmod({x:iuf}, {s})[{01}]
np.{unary}({x:biufc})
np.{unary}({x:f})
np.{binary}({x:biuf}, {y:biuf})
np.{binary}({x:biuf}, {s})
np.{anything}({x}, {y})
np.{two}({x:f})[{01}]
np.ldexp({x:f}, {y:iu})
np.{of_bits}({x:biu}, {y:biu})
np.{of_bit}({x:biu})
np.{factors}({x:iu}, {y:iu})
np.divmod({x:iuf}, {y:iuf})[{01}]
np.isnat({x:mM})
np.add({x:biufc}, {y:biufc}, dtype={number})
np.multiply({x:iu}, {y:iu}, where={m}, out=xp.zeros({shape}, {x.dtype}))
np.{binary}.outer({x:biuf}, {y:biuf})
np.{reducible}.reduce({x:biuf}, axis={axis})
np.{reducible}.reduce({x:biuf}, axis={axes}, keepdims={bool}, initial={s})
np.{adding}.reduce({x:biu}, axis={axes}, keepdims={bool}, initial={i})
np.{accumulates}.accumulate({x:biuf}, axis={axis})
np.{scanned}.accumulate({x:biu}, axis={axis})
{x:mM} - {y:mM}
{x:mM} + {y:m}
{x:m} * {i}
{x:m} / {y:m}
{x:m} // {y:m}
{x}[{key}]
{x}[{key}]
{x}[{key}]
{x}[{m}]
{x}[{m}]
{x:*23}[:, {mask1}]
{x:*23}[{mask0}, {newkey}]
{x:*123}[None, {mask0}, ..., {end}]
{x:*123}[{mask0}][{mask_slice}]
{x:*123}[{places0}]
{x:*23}[{places0}, {places1}]
{x:*23}[:, {places1}, None]
{x:V}["a"]
{x:V}[["b", "a"]]
xp.astype({x}, {dtype})
{x}.astype({dtype})
{x}.astype({dtype}, casting={casting})
{x:biufcmM}.view({dtype})
{x}.T
{x}.real
{x:c}.imag
xp.{simple}({x})
xp.{simple}({x})
xp.{floats}({x:biufc})
{x}.{method}()
{x:biumMOUSV}.{scan}()
xp.{shaped}({x})
xp.{extreme}({x}, axis={axes}, keepdims={bool})
xp.{extreme}({x}, axis={axes})
xp.{extreme}({x:biufc}, axis={axes}, initial={s}, where={m})
xp.{nanextreme}({x:biufc}, axis={axes}, keepdims={bool})
xp.{nanextreme}({x:biuf}, axis={axes}, initial={s}, where={m})
xp.ptp({x:biufcm}, axis={axes}, keepdims={bool})
xp.{truth}({x:biufcO}, axis={axes}, keepdims={bool})
xp.{truth}({x:biufc}, axis={axes}, where={m})
xp.count_nonzero({x}, axis={axes}, keepdims={bool})
xp.{arg}({x}, axis={axis1}, keepdims={bool})
xp.{nanarg}({x:biufc}, axis={axis1})
{x}.{arg}()
xp.sum({x:biuO}, axis={axes}, keepdims={bool})
xp.sum({x:m}, axis={axes})
xp.sum({x:biu}, axis={axes}, dtype={number})
xp.sum({x:biu}, axis={axes}, initial={s}, where={m})
xp.prod({x:biuO}, axis={axes}, keepdims={bool})
xp.nansum({x:biuOm}, axis={axes})
xp.{scan}({x:biu}, axis={axis1})
xp.{scan}({x:biu}, axis={axis1}, dtype={number})
xp.{nanscan}({x:biu}, axis={axis1})
xp.{arrayscan}({x:biu}, axis={axis}, include_initial={bool})
xp.cumsum({x:m}, axis={axis1})
xp.diff({x}, n={k}, axis={axis})
xp.diff({x}, axis={axis}, prepend={s})
xp.diff({x:*1}, prepend={x:*1}, append={s})
xp.ediff1d({x}, to_end={s}, to_begin={s})
xp.gradient({x:*1})
xp.gradient({x:mM*12}, axis={axis})
xp.trapezoid({x:mM}, axis={axis})
xp.dot({x:m*1}, {same:biu})
xp.tensordot({x:bOm*12}, {y:biu*12}, axes=0)
xp.logical_and.reduce({x:biuf}, axis={axis}, initial={bool})
xp.trim_zeros({x:biufc}, axis={axes})
xp.clip({x}, None, None)
xp.sum({x:biu}, axis={axes}, where=xp.ones((2, 1, 1, 1, 1), bool))
xp.gradient({x:biuf}, axis={axis})
xp.gradient({x:biuf}, {step}, axis={axis}, edge_order={12})
xp.unique({x})
xp.unique({x:biufc}, return_counts=True)[{01}]
xp.unique({x:biufc}, return_index=True, return_inverse=True)[{012}]
xp.unique({x:biufc}, equal_nan={bool})
xp.unique({x:biu*23}, axis={axis})
xp.union1d({x}, {y})
xp.{sorts}({x}, axis={axis})
xp.{argsorts}({x}, axis={axis}, kind="stable")
{x}.argsort(axis={axis}, kind="stable")
xp.topk({x:biuf*12}, {nonzero}, axis={axis})
xp.argtopk(xp.cumsum(xp.ones_like({x:*123}, dtype="i4"), axis=0), {nonzero}, axis=0)
xp.partition({x:biuf*123}, -1, axis=0)[-1]
xp.argpartition(xp.cumsum(xp.ones_like({x:*123}, dtype="i4"), axis=0), -1, axis=0)[-1]
xp.median({x:biuf}, axis={axes}, keepdims={bool})
xp.nanmedian({x:biuf}, axis={axes})
xp.{quantile}({x:biuf}, {q}, axis={axes}, method={quantile_method})
xp.{percentile}({x:biuf}, [10, 50, 90], axis={axis1}, keepdims={bool})
xp.bincount({x:iu*1})
xp.bincount(abs({x:i*1}), minlength={k})
xp.digitize({x:biuf}, np.array([-2, 0, 1.5, 4]), right={bool})
xp.histogram({x:biuf}, {bins}, {range})[{01}]
xp.histogram({x:biuf}, np.array([-3, 0, 1.5, 4]))[{01}]
xp.histogram({x:iuf}, {bins}, {range}, weights={same:iu})[0]
xp.histogram({x:iuf}, {bins}, {range}, density=True)[0]
xp.histogram_bin_edges({x:biuf}, {bins}, {range})
xp.histogram2d({x:biuf*1}, {x:biuf*1}, {bins})[{012}]
xp.histogramdd({x:biuf*2}, {bins})[0]
xp.interp({x:biuf}, np.array([-2.0, 0, 3]), np.array([1.0, -1, 5]))
xp.searchsorted(xp.arange({k5}), {x:biuf}, side={side})
xp.searchsorted(xp.sort({x:biuf*1}), {y:biuf})
xp.isin({x}, {y})
xp.isin({x}, [0, 1, 2], invert={bool})
xp.isclose({x:biufc}, {y:biufc}, equal_nan={bool})
xp.allclose({x:biufc}, {y:biufc}, equal_nan={bool})
xp.array_equal({x}, {y})
xp.array_equal({x:fc}, {x:fc}, equal_nan=True)
xp.array_equiv({x}, {y})
xp.where({m}, {x}, {y})
xp.where({m}, {x}, {s})
xp.where({m}, {s}, {x})
xp.where({x})[0]
xp.select([{m}, {m}], [{x}, {y}])
xp.select([{m}, {m}], [{x}, {s}], {s})
xp.choose({choices}, [{x}, {y}])
xp.choose({choices}, [{x}, {s}], mode="clip")
xp.piecewise({x:biufc}, [{m}], [{s}, {s}])
xp.piecewise({x:f}, [{m}, {m}], [1, np.negative, np.square])
xp.clip({x:biufmM}, {y:biufmM}, None)
xp.clip({x:biuf}, {s}, {s})
xp.clip({x:biuf}, min={s})
{x:biuf}.clip({s}, {s})
xp.{rounds}({x:biufc}, {n})
round({x:iuf*123}, 1)
xp.nan_to_num({x:biufc})
xp.nan_to_num({x:f}, nan={f}, posinf={f}, neginf=-1)
xp.angle({x:fc})
xp.argwhere({x})
xp.nonzero({x:*123})[0]
{x:*12}.nonzero()[-1]
xp.flatnonzero({x})
xp.take({x}, {places}, axis={axis1}, mode={mode})
xp.take({x}, {places})
{x}.take({places}, axis={axis})
xp.take_along_axis({x:*123}, xp.argsort({x:*123}, axis=0, kind="stable"), axis=0)
xp.compress({mask0}, {x:*123}, axis=0)
xp.compress({mask0}, {x:*123})
xp.extract({m}, {x})
xp.delete({x}, {place}, axis={axis1})
xp.delete({x}, [0, -1], axis={axis1})
xp.insert({x}, {place}, {s}, axis={axis1})
xp.insert({x:*1}, [0, -1], {y})
xp.diag({x:*12}, {n})
xp.diagonal({x:*23}, {n})
xp.trace({x:biuO*23}, {n})
xp.{tri}({x:*123}, {n})
xp.append({x}, {y})
xp.append({x}, {x}, axis={axis})
xp.block([[{x}, {x}], [{x}, {x}]])
xp.block([{x}, {s}])
xp.{concat}([{x}, {same}], axis={axis1})
xp.{concat}([{x}, {same}], axis={axis}, dtype={dtype}, casting="unsafe")
xp.{stacks}([{x}, {same}])
xp.{stacks}([{x}, {y}])
xp.stack([{x}, {same}, {x}], axis={axis})
xp.cross({three:iu}, {three:iu})
xp.{products}({x:biuO}, {x:biuO})
xp.{products}({x:biu}, {y:biu})
{x:biu*12} @ {y:biu}
xp.matmul({x:biuO*12}, {x:biuO*12}.T)
xp.tensordot({x:biuOm}, {x:biuO}, axes=0)
xp.tensordot({x:biu*23}, {same:biu}, axes=([0], [0]))
xp.einsum("ij,kj->ik", {x:biu*2}, {same:biu})
xp.einsum("i...->...", {x:biu})
xp.einsum("...,...->...", {x:biu}, {y:biu})
xp.einsum("ii->i", {x:biu*2})
xp.pad({x}, {k}, mode={pad_mode})
xp.pad({x}, {k}, constant_values={s})
xp.pad({x:*1}, ({k}, {k}), mode={pad_mode})
xp.pad({x:biumMOUSV}, {k}, mode="mean")
xp.pad({x:biufc}, {k}, mode="reflect", reflect_type="odd")
xp.pad({x:biuf}, {k}, mode="linear_ramp", end_values={s})
xp.roll({x}, {i}, axis={axis1})
xp.roll({x:*23}, ({i}, {i}), axis=(0, 1))
xp.rot90({x:*23}, {i})
xp.flip({x}, axis={axes})
xp.{flips}({x})
xp.tile({x}, {k})
xp.tile({x}, (2, {k}))
xp.repeat({x}, {k}, axis={axis1})
xp.repeat({x:*1}, {counts})
xp.repeat({x}, [])
xp.{splits}({x}, {12}, axis={axis})[-1]
xp.array_split({x}, 3, axis={axis})[{01}]
xp.{named_splits}({x}, 2)[0]
xp.trim_zeros({x:biuf*1}, {trim})
xp.trim_zeros({x:biuf})
xp.meshgrid({x:*1}, {x:*1}, indexing={indexing})[{01}]
xp.atleast_{123}d({x})
xp.broadcast_arrays({x}, {y})[{01}]
xp.broadcast_to({x}, (2, *{shape}))
xp.expand_dims({x}, {axis})
xp.moveaxis({x}, {axis}, {axis})
xp.rollaxis({x}, {axis})
xp.swapaxes({x}, {axis}, {axis})
xp.squeeze({x})
xp.squeeze({x}, axis={axis})
xp.reshape({x}, {reshaped})
{x}.reshape({reshaped})
xp.reshape({x}, -1)
xp.ravel({x}, order={order})
xp.permute_dims({x})
xp.transpose({x:*2}, (1, 0))
xp.sliding_window_view({x:*123}, 2, axis=0)
xp.apply_along_axis(np.{sums1}, {axis}, {x:biu})
xp.apply_along_axis(np.sort, {axis}, {x:biuf})
xp.apply_over_axes(xp.{extreme}, {x:biuf}, [0])
xp.frompyfunc(double, 1, 1)({x:biufcO})
xp.vectorize(double, otypes=[{x.dtype}])({x:biufc})
xp.map_blocks(double, {x:biufc})
xp.map_blocks(np.negative, {x:ifc})
xp.blockwise(np.add, "ij", {x:iufc*2}, "ij", {same:i*2}, "ij")
xp.map_overlap(neighbours, {x:iu*12}, depth=1, boundary={boundary})
xp.apply_gufunc(spread, "(i)->()", xp.rechunk({x:iu*1}, -1), output_dtypes=[{x.dtype}])
xp.gufunc(spread, signature="(i)->()", output_dtypes=[{x.dtype}])(xp.rechunk({x:iu*1}, -1))
xp.as_gufunc(signature="(i)->()", output_dtypes=[{x.dtype}])(spread)(xp.rechunk({x:i*1}, -1))
xp.reduction({x:i}, np.sum, np.sum, axis=0, keepdims={bool}, dtype="i8")
xp.rechunk({x}, {chunks})
xp.unify_chunks({x:*1}, "i", {same:*1}, "i")[1][{01}]
xp.copy({x})
xp.array({x}, ndmin={k})
xp.array({x}, dtype={dtype})
xp.asarray({x})
xp.asanyarray({x}, dtype={number})
xp.empty_like({x}) * 0 if False else xp.zeros_like({x})
xp.ones_like({x:biufc}, dtype={number})
xp.full_like({x:biufc}, {s}, shape=(2, 3))
xp.arange({k5}, dtype={number})
xp.arange({n}, {k5}, {step})
xp.linspace({n}, {k5}, {k5}, dtype={number})
xp.logspace(0, {k}, {k5})
xp.{creates}({shape}, {number})
xp.zeros_like(xp.empty({shape}, {number}))
xp.full({shape}, {s})
xp.eye({k5}, {k5}, {n})
xp.identity({k5})
xp.tri({k5}, {k5}, {n})
xp.indices({shape})
xp.fromfunction(np.add, (3, {k5}), dtype={number})
xp.{triangle}({k5}, {n})[{01}]
xp.{triangle}_from({x:*2})[0]
xp.ravel_multi_index((flags(5, (4,)) * 1, flags(7, (4,)) * 2), (3, 4))
xp.unravel_index(abs({x:i}), (20, 30))[{01}]
xp.kron({x:biu*12}, {same:biu})
xp.{convolutions}({x:biu*1}, {same:biu}, mode={convolved})
xp.packbits({x:b}, axis={axis})
xp.unpackbits(xp.packbits({x:b}), count=-{k})
xp.{set_operations}({x:biufmMUS}, {y:biufmMUS})
xp.{set_operations}({x:biu}, [0, 2, 5])
xp.{distinct}({x:biuf})[0]
xp.sort(xp.unique_values({x}))
xp.lexsort(({x:biuf*1}, {same:biuf}))
xp.ix_({x:biu*1}, {mask0})[0]
xp.diagflat({x:biufcmMUS}, {n})
xp.vander({x:biu*1}, {k})
xp.vander({x:biu*1}, increasing={bool})
xp.resize({x}, {shape})
xp.unstack({x:*123}, axis={axis})[0]
xp.sort_complex({x:biufc})
xp.diag_indices({k5}, 2)[{01}]
xp.geomspace(1, 8, {k5})
xp.{polynomials}({x:iu*1}, {same:iu})
xp.{calculus}({x:f*1}, {k})
xp.polyval({x:biu*1}, {y:biu})
xp.size({x}, axis={axis1})
xp.shape(xp.zeros({shape}))
xp.ndim({x})
xp.{asks}({x})
xp.can_cast({x}.dtype, {dtype})
xp.common_type({x:biufc}, {x:biufc})
xp.result_type({x}, {y}) == np.result_type({x}.dtype, {y}) if {numbers} else 0
len({x:*123})
{x:biufc}.item(0)
"""

#: Sums in another order: within what that may do, of the same code with absolute values.
SUMS = """
xp.{total}({x:fc}, axis={axes}, keepdims={bool})
xp.{total}({x:fc}, axis={axes})
xp.{total}({x:fc}, axis={axes}, dtype={inexact})
xp.{total}({x:fc}, axis={axes}, where={m})
{x:fc}.sum(axis={axis1})
{x:fc}.{scan}()
{x:biufc}.mean(axis={axis1}, keepdims={bool})
xp.{means}({x:biufc}, axis={axes}, keepdims={bool})
xp.{means}({x:biuf}, axis={axes}, dtype={inexact}, where={m})
xp.{means}({x:m}, axis={axes})
xp.sum({x:f}, axis={axes}, initial={s})
xp.average({x:biufc}, axis={axis1}, keepdims={bool})
xp.average({x:biuf}, weights={same:biuf})
xp.average({x:biuf*1}, axis=0, weights={same:biu}, returned=True)[{01}]
xp.{scan}({x:fc}, axis={axis1})
xp.{nanscan}({x:f}, axis={axis1})
xp.{arrayscan}({x:f}, axis={axis}, include_initial={bool})
xp.prod({x:fc}, axis={axes}, keepdims={bool})
xp.nanprod({x:fc}, axis={axes})
xp.trapezoid({x:biufc}, axis={axis}, dx={step})
xp.trapezoid({x:biuf*1}, {same:biuf})
xp.{products}({x:biufc}, {x:fc})
xp.{products}({x:fc}, {y:biufc})
{x:fc*12} @ {y:biufc}
xp.matmul({x:fc*12}, {x:fc*12}.T)
xp.{vectors}({x:biufc*12}, {same:biufc})
xp.matvec({x:biufc*2}, {x:biufc*1})
xp.vecmat({x:biufc*1}, {x:biufc*2})
xp.tensordot({x:fc*23}, {same:biufc}, axes=([0], [0]))
xp.einsum("ij,kj->ik", {x:fc*2}, {same:fc})
xp.einsum("i...->...", {x:fc})
xp.trace({x:fc*23})
xp.bincount(xp.ravel({choices}), weights=xp.ravel({x:biuf}))
xp.histogram({same:iu}, {bins}, {range}, weights={x:biufc})[0]
xp.cross({three:fc}, {three:biufc})
xp.kron({x:fc*12}, {same:biufc})
xp.{convolutions}({x:fc*1}, {same:biufc}, mode={convolved})
xp.unwrap({x:f}, axis={axis})
xp.vecdot(xp.rechunk({x:f*12}, -1), {same:f})
np.{summing}.reduce({x:biuf}, axis={axis})
np.{summing}.reduce({x:f}, axis={axes}, keepdims={bool}, initial={s})
np.{scanned}.accumulate({x:f}, axis={axis})
xp.pad({x:fc}, {k}, mode="mean")
"""

#: Squares of deviations: within what rounding does to the squares of the largest.
MOMENTS = """
xp.{deviation}({x:biufc}, axis={axes}, keepdims={bool})
xp.{deviation}({x:biufc}, axis={axes}, ddof={01})
xp.{deviation}({x:biuf}, axis={axes}, dtype={inexact}, where={m})
{x:biufc}.std(axis={axis1})
{x:biufc}.var(axis={axis1}, ddof={01})
xp.cov({x:biufc*12})
xp.cov({x:biuf*1}, {same:biuf}, ddof={01})
xp.cov({x:biuf*12}, rowvar={bool}, bias={bool})
xp.corrcoef({x:biuf*12})
"""

#: Statements that change a variable; what they assign fits, mostly.
CHANGES = """
{x}[{key}] = {s}
{x}[{key}] = {s}
{x:biufcmMUSV}[{key}] = {value}
{x}[{m}] = {s}
{x:biufcmMUS}[{m}] = {y}
{x:*123}[{mask0}] = {s}
{x:biufcmM*123}[{mask0}] = {y:biufc}
{x:*123}[{places0}] = {s}
{x:biufcmM*23}[{places0}, 0] = {y}
{x:biufcmM*23}[[0], 1:2:-2] = {y}
{x} {op}= {y}
{x:biuf} += {s}
np.add({x:biuf}, {y:biu}, out={x})
"""

WORDS = {
    "op": "+ - * / // % + - *", "compare": "< <= > >= == !=", "bits": "& | ^ << >>",
    "unary": "negative abs sqrt exp tanh sin isnan square floor ceil trunc sign logical_not "
             "reciprocal signbit isfinite isinf rint log log1p cbrt cos arctan expm1 exp2 "
             "positive fabs deg2rad rad2deg degrees radians spacing conj arccos arccosh arcsin "
             "arcsinh arctan arctanh cosh sinh tan log10 log2",
    "binary": "add subtract multiply divide maximum minimum floor_divide remainder fmod power "
              "arctan2 copysign hypot fmax fmin less equal logical_and logical_xor logaddexp "
              "nextafter float_power logaddexp2 heaviside",
    "anything": "add subtract multiply maximum minimum equal less logical_or not_equal greater "
                "greater_equal less_equal",
    "of_bits": "bitwise_and bitwise_or bitwise_xor left_shift right_shift",
    "of_bit": "invert bitwise_count", "factors": "gcd lcm",
    "two": "modf frexp", "reducible": "maximum minimum logical_and logical_or bitwise_or "
                                      "fmax fmin arctan2",
    "adding": "add multiply", "summing": "add multiply hypot subtract",
    "accumulates": "maximum minimum", "scanned": "add multiply",
    "simple": "copy conj real imag sort unique isreal iscomplex nan_to_num isfinite isnull notnull "
              "fix around sign abs ravel squeeze transpose iscomplexobj asarray zeros_like",
    "floats": "sinc i0 isneginf isposinf fix signbit angle real imag nan_to_num isnan",
    "method": "ravel flatten copy squeeze transpose conj conjugate any all max min argmax argmin "
              "round tolist",
    "shaped": "atleast_1d atleast_2d atleast_3d ravel squeeze transpose matrix_transpose "
              "permute_dims flip fliplr flipud",
    "extreme": "max min amax amin", "nanextreme": "nanmax nanmin", "truth": "any all",
    "arg": "argmax argmin", "nanarg": "nanargmax nanargmin", "scan": "cumsum cumprod",
    "nanscan": "nancumsum nancumprod", "arrayscan": "cumulative_sum cumulative_prod",
    "sorts": "sort sort partition0", "argsorts": "argsort", "quantile": "quantile nanquantile",
    "percentile": "percentile nanpercentile", "rounds": "round around", "tri": "tril triu",
    "concat": "concatenate concat", "stacks": "vstack hstack dstack column_stack stack",
    "products": "dot inner outer vdot matmul tensordot0 dot", "flips": "fliplr flipud flip",
    "splits": "split array_split", "named_splits": "hsplit vsplit dsplit",
    "sums1": "sum max argmax", "creates": "zeros ones", "triangle": "tril_indices triu_indices",
    "asks": "iscomplexobj isrealobj", "total": "sum sum nansum", "means": "mean nanmean",
    "vectors": "vecdot inner vdot", "deviation": "std var nanstd nanvar",
    "inexact": "'f4' 'f8' 'c16' 'f2' 'g'", "casting": "'unsafe' 'same_kind' 'safe'",
    "quantile_method": "'linear' 'lower' 'higher' 'midpoint' 'nearest' 'hazen'",
    "side": "'left' 'right'", "trim": "'f' 'b' 'fb'",
    "pad_mode": "'constant' 'edge' 'reflect' 'symmetric' 'wrap' 'maximum' 'minimum'",
    "indexing": "'xy' 'ij'", "order": "'C' 'F' 'K'", "bool": "True False", "01": "0 1",
    "012": "0 1 2", "12": "1 2", "123": "1 2 3", "k": "0 1 2 3", "k5": "0 1 3 4 5",
    "n": "-2 -1 0 1 2", "i": "-3 -1 0 1 2 5", "nonzero": "-2 -1 1 2 3", "step": "0.5 1 2 -1",
    "f": "0.5 -0.0 2.0", "q": "0.5 0 1 0.3 [0.25,0.75]", "bins": "1 3 5",
    "range": "(0,4) (-2,3) None", "s": "0 1 2 -1 3 0.5 -0.0 2.5 True nan inf 1j 300 np.float32(1.5)"
                                       " np.int8(2) np.uint8(200)",
    "convolutions": "convolve correlate", "convolved": "'full' 'same' 'valid'",
    "set_operations": "intersect1d setdiff1d setxor1d", "calculus": "polyder polyint",
    "distinct": "unique_all unique_counts unique_inverse",
    "polynomials": "polyadd polysub polymul",
    "boundary": "'reflect' 'periodic' 'nearest'", "end": "-1 -7 0",
    "numbers": "True",
}
