"""The commands: `main` registers them, `flags` are shared, `up` has supervisor and progress beside it, `plan` its text.

`looking` holds those that only look at a run, `studies` those that only look at studies, `node` the daemons.
"""
