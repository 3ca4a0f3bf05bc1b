"""The commands: `main` registers them, `flags` are shared, `up` has supervisor and progress beside it, `plan` its text.

`workers` is what `up --in-process` starts.
"""
