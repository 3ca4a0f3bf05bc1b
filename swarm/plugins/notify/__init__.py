"""`swarm status --watch --notify`: a command or a webhook is told what goes wrong, and when it is well again.

troubles    what is wrong by a status, and what has changed since the last message; pure
targets     a command, which reads a message on its standard input, and a webhook, to which it is posted
entry       looks at each status, and tells what is new, as JSON: what strangers wrote is never in a line of a shell
"""
