"""Pure computations on frames: measures of a run, statistics over seeds."""
