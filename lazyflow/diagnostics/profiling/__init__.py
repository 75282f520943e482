"""`profile`: what ran where and when, and what to make of it.

The modules, in reading order:

    texts           names, times and shares as short, harmless text
    captures        large data that a function takes along
    eager_calls     calls that were made before `delayed` could make them lazy
    sights          what is seen of the graphs of runs
    records         what is known of a task and of a run; lanes and gaps
    recording       what is recorded of a run, and the records that are made of it
    samples         where tasks were, as a tree of calls and as the hottest lines
    usage           memory and CPU use over time
    looking         the thread that sees both
    recorder        `profile`: the observer that records
    summary         a table by function
    bars            what a timeline draws
    usage_bars      what it draws below its lanes
    page            HTML pages by Bokeh
    timeline        what ran, as such a page
    flame           which lines cost the time, as a table
    flame_figure    and as such a page
    chrome_trace    a file for Perfetto
    evidence        what the rules of advice look at
    advice/         what to change: one rule, one function
"""
