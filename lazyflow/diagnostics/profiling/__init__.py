"""`profile`: records what ran where and when, and gives advice.

The modules, in reading order:

    texts        names, times and shares as short, harmless text
    graph_facts  facts about the graphs of runs: data that functions carry, early calls
    records      records of tasks and runs; lanes and gaps
    recording    of runs and calls of actors, and of memory and CPU use over time
    samples      samples of tasks' lines, as a tree of calls and as the hottest lines
    recorder     `profile`: the observer that records, a thread that samples, a file for Perfetto
    summary      a table by function
    pages        the timeline and the hottest lines, as HTML pages by Bokeh
    advice       advice on what to change: one function per rule, and the evidence that it has
"""
