"""A page that shows local runs while they go on.

The modules, in reading order:

    monitor    `Monitor`: the observer that collects what runs, what the page is told of it, and the
               advice on what ran in the last seconds
    server     the pages and the stream of changes, by Tornado, in a thread of its own; who may ask
    live       `dashboard` and what it returns, and work to look at for its ``--demo``
    static/    the page itself: it loads nothing from elsewhere, and writes texts only as text
"""
