"""Task families, and the scoring of answers in bounded child processes.

where questions come from   family (the contract and its manual), registry (families by name), definitions (a run's own
                            tasks), universe (what a run may ask); gym/, dataset/, python/ (the families)
what is read                answer (the text between the tags), revise (what later stages show)
tasks that reply            conversation (the contract, and whose turn it is)
node side                   scoring (Scorer and its queue), scoring_process (a server's life)
server side                 scoring_server, bounded (a child with limits), sandbox (what Python refuses it), bars (what
                            the kernel does), trial (answers that are code)
between them                scoring_messages
"""
