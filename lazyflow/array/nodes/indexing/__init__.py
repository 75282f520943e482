"""What stands between the brackets of ``x[...]``, and the nodes that take and write elements."""
