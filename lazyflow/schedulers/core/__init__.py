"""What runs on every scheduler stand on: runs, their slots, events and futures; `base` first."""
