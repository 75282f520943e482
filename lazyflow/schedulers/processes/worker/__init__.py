"""The worker's side: it runs the tasks and actors that the parent sends."""
