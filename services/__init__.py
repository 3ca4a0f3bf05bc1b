"""The daemons as modules: `python -m services.coordinator`, `services.worker`, or `services.workers` for several."""
