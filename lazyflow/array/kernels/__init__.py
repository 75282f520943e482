"""How a fused task runs over its blocks; knows nothing of chunks, expressions or tasks."""
