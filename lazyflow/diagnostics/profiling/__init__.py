"""`profile`: records what ran where and when, and gives advice.

The modules, in reading order:

    texts         names, times and shares as short, harmless text
    graph_facts   facts about the graphs of runs: data that functions carry, early calls
    records       records of tasks and runs; lanes and gaps
    recording     recording of a run, and its records
    actor_calls   the same for calls of actors
    samples       samples of tasks' lines, as a tree of calls and as the hottest lines
    usage         memory and CPU use over time
    recorder      `profile`: the observer that records, and the thread that samples
    summary       a table by function
    page          figures and HTML pages by Bokeh
    timeline      the timeline, as such a page
    flame         the hottest lines, as a table and as such a page
    chrome_trace  a file for Perfetto
    evidence      the evidence for the rules of advice
    advice        advice on what to change: one function per rule
"""
