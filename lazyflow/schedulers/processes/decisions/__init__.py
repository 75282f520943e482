"""What the pool does next: an event changes the state and appends instructions for the driver.

Nothing here knows a clock, a process or a socket. Read events.py first.
"""
