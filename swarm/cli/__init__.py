"""The commands: `main` registers them, `flags` are shared, `up` has supervisor and progress beside it, `plan` its text.

`looking` holds those that only look at a run, `node` the daemons; `plugin_commands` reads what plugins add.
"""
