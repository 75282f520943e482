"""What to look at: pictures of task graphs and of their runs."""
