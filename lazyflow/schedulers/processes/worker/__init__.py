"""The worker's side: what runs tasks and actors that the parent sends."""
