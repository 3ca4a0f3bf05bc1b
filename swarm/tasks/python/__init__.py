"""Tasks of the user's own, in a Python file: it draws questions and scores answers.

contract     what is in such a file
family       what nodes know of it: names, profiles, and how a settings file's table is completed
questions    make and score, in the scoring server's children
template     what `swarm task new` writes
"""
