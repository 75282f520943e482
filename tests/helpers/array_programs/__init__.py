"""Random programs of arrays, as code, that run with NumPy and with `lazyflow.array`."""
