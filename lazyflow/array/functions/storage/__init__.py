"""Arrays from and into memory, files and lazy values."""
