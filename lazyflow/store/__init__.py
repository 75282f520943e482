"""Where values are while a run needs them, and how they are handed over."""
