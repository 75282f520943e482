"""Other libraries' lazy objects."""
