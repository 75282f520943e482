"""Functions of sequences: bits and bytes, sliding sums, gaps, coarser ones, polynomials."""
