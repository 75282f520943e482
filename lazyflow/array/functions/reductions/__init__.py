"""Sums, means, extremes and quantiles over axes, and reductions by any ufunc."""
