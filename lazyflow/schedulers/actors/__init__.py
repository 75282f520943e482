"""What the actors of all schedulers have in common, and those of this process."""
