"""What both sides of any wire share: calls, task stubs, the caller's environment and modules."""
