"""Kernels generated as LLVM's text, compiled, checked against tiles, and kept in files."""
