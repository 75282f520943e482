"""A live page of local runs.

The modules, in reading order:

    monitor    `Monitor`: the observer that records runs, the updates for the page, and advice on
               the last seconds
    server     `dashboard`: the pages, access to them and the stream of changes, by Tornado, in a
               thread of its own; and the work that ``--demo`` runs
    static/    the page itself: it loads no other files, and writes texts only as text
"""
