"""Task families, and the scoring of answers in bounded child processes.

where questions come from   family (the contract and its manual), registry (families by name), gym/ (the first one)
what is read                answer (the text between the tags)
tasks that reply            conversation (the contract), conversing (whose turn it is, of all conversations of a round)
node side                   scoring (Scorer), scoring_queue (batches), scoring_process (a server's life)
server side                 scoring_server, bounded (a child with limits), sandbox (what Python refuses it), bars/ (what
                            the kernel does)
between them                scoring_messages, frames
"""
