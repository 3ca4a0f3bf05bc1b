"""Datasets of the user's own: rows of a file as questions, rewarded by a scorer that has a name.

family       what nodes know of it: names, profiles, and how a settings file's table is completed
definition   the parameters of one task, checked
files        where the rows lie, and the SHA-256 that names them; hub: one fetched from the Hugging Face hub
reading      rows of JSON lines, CSV and Parquet, bounded; parquet: the process that reads the last
rows         all rows of a task, in memory that children share; template: a question's text from a row
questions    make and score, in the scoring server's children
scorers/     what an answer is worth, by name
"""
