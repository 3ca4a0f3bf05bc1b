"""Holds what experiments on the algorithm need: how the embedded models are made, and instruments of studies.

settings   what studies turn on
hooks      joins what is on into a worker's rounds
planting   right answers published with planted words in front of them
averaging, averaging_machine   weights averaged every so many rounds: done; whose, and how long to wait
mean_weights   their mean, and DiLoCo's outer step towards it; training adds it to a trainer
scaled_rules, supply_rule, control_rules   adaptive rules by name, for `swarm.rules`
learnability   a sampler that prefers tasks at which the own policy is bad
warmup     how the embedded models and specialists are made; model_build is its command
"""
