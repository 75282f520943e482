"""Functions of users' own on blocks, slices, windows and elements."""
