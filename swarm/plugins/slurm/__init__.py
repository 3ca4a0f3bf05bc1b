"""Programs as jobs of Slurm, submitted by submitit (extra `slurm`).

resources   what a job is to have, as flags say it
job         what runs on the cluster's node
queue       which jobs are in Slurm's queue
backend     submits, asks after and cancels
"""
