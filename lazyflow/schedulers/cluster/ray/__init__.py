"""Plans and actors on Ray. Only this folder imports it.

    scheduler.py  the engine, and the choice or start of a Ray
    actors.py     actors in Ray's processes, and the way to them
"""
