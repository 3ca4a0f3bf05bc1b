"""The daemons as modules: `python -m services.worker`, `python -m services.coordinator`."""
