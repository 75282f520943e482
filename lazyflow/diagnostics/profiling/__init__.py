"""`profile`: what ran where and when, and what to make of it.

The modules, in reading order:

    texts         names, times and shares as short, harmless text
    graph_facts   what is seen of the graphs of runs: data that functions take along, early calls
    records       what is known of a task and of a run; lanes and gaps
    recording     what is recorded of a run, and the records that are made of it
    actor_calls   calls of actors, likewise
    samples       where tasks were, as a tree of calls and as the hottest lines
    usage         memory and CPU use over time
    recorder      `profile`: the observer that records, and the thread that looks
    summary       a table by function
    page          HTML pages by Bokeh
    timeline      what ran, as such a page
    flame         which lines cost the time, as a table and as such a page
    chrome_trace  a file for Perfetto
    evidence      what the rules of advice look at
    advice        what to change: one rule, one function
"""
