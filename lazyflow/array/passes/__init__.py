"""Cheaper equals of expressions: `pipeline` looks at all wanted arrays at once, `fuse` joins."""
