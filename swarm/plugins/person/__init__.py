"""A person as a policy: questions on a terminal, answers from a keyboard, beside the node that publishes them.

answer.py is the command, person.py asks, terminal.py reads and writes, news.py tells what became of answers.
"""
