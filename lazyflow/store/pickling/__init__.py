"""How values and functions become bytes for other processes, and what cannot be pickled."""
