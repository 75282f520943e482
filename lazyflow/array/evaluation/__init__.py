"""From wanted expressions to results: the whole of the blocks, and lengths found out first."""
