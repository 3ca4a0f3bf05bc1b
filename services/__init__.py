"""The daemons as modules: `python -m services.node` has the role that NODE_ROLE says; `services.coordinator`,
`services.worker` and `services.judge` have their own; `services.workers` runs several workers."""
