"""For those who write a scheduler or a collection: the contract to pass, and helpers."""
