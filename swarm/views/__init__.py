"""Views of a run for people and programs: status, events, summary, plot, groups, top, validation (checks)."""
