"""Which task goes where and what is kept: pure, events in and instructions out; `state` first."""
