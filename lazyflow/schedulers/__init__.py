"""What runs plans. `base` is the page to read to add a scheduler."""
