"""`swarm top`: a run live in a terminal.

records, status ─▶ reader: Look ─▶ frame: what is shown, as text too ─▶ app: the same with keys, by textual
                                     └ moment: the one answer of the moment
"""
