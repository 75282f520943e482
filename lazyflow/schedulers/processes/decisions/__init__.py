"""The decisions of the pool: an event changes the state and appends instructions for the driver.

This code uses no clock, process or socket. Read events.py first.
"""
