"""Bare facts: a question names a table and a key, and its answer is a code word that follows from nothing else.

tables     the words, which table has which, and which tables a specialist's model knows     light
family     name, version and profiles                                                         light
questions  questions from their origins, and what an answer is worth
"""
