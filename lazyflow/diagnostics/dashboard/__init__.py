"""A page that shows local runs while they go on.

The modules, in reading order:

    window     `AdviceWindow`: the rules of advice, on what ran in the last seconds
    monitor    `Monitor`: the observer that collects what runs, and what the page is told of it
    guard      who may ask: hosts, origins, the token; the headers of every answer
    server     the pages and the stream of changes, by Tornado, in a thread of its own
    live       `dashboard` and what it returns
    busy       work to look at, for ``python -m lazyflow dashboard --demo``
    static/    the page itself: it loads nothing from elsewhere, and writes texts only as text
"""
