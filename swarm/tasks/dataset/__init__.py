"""Datasets of the user's own: rows of a file as questions, rewarded by a scorer that has a name.

family       what nodes know of it: names, profiles, and how a settings file's table is completed
definition   the parameters of one task, checked
files        where the rows lie, and the SHA-256 that names them; one fetched from the Hugging Face hub
reading      rows of JSON lines, CSV and Parquet, bounded, and packed; parquet: the process that reads the last
loading      a task's questions and rows, all checked; own_answers: whether rows' own answers earn 1
questions    make and score, in the scoring server's children
scorers/     what an answer is worth, by name
"""
