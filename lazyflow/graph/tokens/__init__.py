"""Names made of content: `contents` says what an object consists of, `digests` hash that."""
