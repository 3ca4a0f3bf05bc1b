"""The one reader of a run: what lies in its place, as rows, events, nodes, progress, and whether it is finished.

    Run ─┬ files     small files by their form: clock, registrations, experiment, rewards, exam     once a version
         ├ listing   whose rollouts, rewards and checkpoints lie where                              listed at each look
         ├ liveness  whose heartbeat moves                                                          from look to look
         ├ table     metrics: a line ─▶ a row of typed columns   ┐
         ├ events    events, log lines                           ┴ growing: files that only grow, read on from a cursor
         │
         └ RunReader.refresh() ─▶ RunSnapshot: progress and ending of each node, who is alive, rounds done, finished

    table ─┬▶ progress   what all rows of a node add up to, and its last ones: status, hints, requests, validation;
           │             of a long log the end says it (Totals)
           ├▶ history    the same, and the figures of each round as columns: summary, plot, the page, top
           └▶ rows       rows as written, or those that count: export, frames, checks, cards

Everything below the store is written by strangers. Whatever lies there is either taken, counted as junk, or left out;
no look takes in more than the bounds named here. Nothing but this room and the nodes reads a run's files.
"""
