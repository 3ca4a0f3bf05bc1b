"""The commands: `main` has their table, `flags` what they share; of `up` the parts are `local_swarm` (which nodes),
`before_start` (what is refused), `supervisor` (their processes) and `progress` (what is shown).
"""
