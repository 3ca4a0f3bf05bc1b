"""The coordinator: state machine, round clock, standby, resumption."""
