"""Questions and rewards.

what is asked   profiles (difficulty), gym (a question from its origin), gym_import (the nine tasks alone)
what is read    answer (the text between the tags)
node side       scoring (Scorer), scoring_queue (who waits together travels together), scoring_process (a server's life)
server side     scoring_server, bounded (a child with limits), sandbox and safe_eval (what it may not do)
between them    scoring_messages, frames
"""
