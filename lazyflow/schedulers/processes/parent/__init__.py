"""The parent's side: the thread that drives the workers, and its ends of what connects them."""
