"""`swarm web`: a run as a page in the browser, live, and frozen into a file.

    place ─▶ look ─▶ series, tasks, answers, adopted ─▶ JSON ─┬▶ service: HTTP, server-sent events
           (reads)              (pure)                        └▶ export: one file

look       what is read of one run while somebody looks, at most once per interval
series     figures by round as columns, whole and as what is new
tasks      what was learned of each task
answers    a stage's groups: question, completions, rewards, advantages, who trained on them
adopted    who learned from whom
journal    events with filters, and what comes
place_list experiments and studies side by side
watched    looks that many browsers share
harmless   texts of strangers
guard      who may ask: token, cookie, Host, Origin, methods, headers
service    the routes; the page lies in swarm/assets/web
"""
