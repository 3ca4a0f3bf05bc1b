"""Views of an experiment's folder, for people and programs: status, events, summary, plot, validation (checks)."""
