"""Answers that are Python code, tried by a row's tests (the scorer `tests`).

judge        the tests, run where no answer's code is
candidate    the answer's code, which calls come to
plain        the values that go between both
modules      what both may import
"""
