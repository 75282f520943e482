"""What becomes of an exception: notes for its reader, and its way to another process."""
