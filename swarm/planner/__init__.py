"""The memory planner: whether a swarm fits into a device, and with which settings. Torch is imported in children alone.

    settings ─▶ planner ─▶ Plan

planner           settings -> the plan for this machine; what would fit where it does not; what fails before any start
plan              what fits, and which way of training to take
node_memory       the memory of one node, by part; the longest prompts, as measured
footprint         the activations of a micro-batch of any size; of known models from a table
trace             in a child: one update on tensors without data, which says so for any model
shape             the sizes of a model, from its files
open_files        how many files a process may have open: raised
device_memory     total and free memory of a device, of one that is not on this machine, too
free_memory       free memory of this machine; its one reader
"""
