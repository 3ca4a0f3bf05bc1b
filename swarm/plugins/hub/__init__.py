"""`swarm model push`: models to the Hugging Face Hub, once or while they are being trained.

model_push: when, what ─▶ the folder that `swarm model export` writes ─▶ hub_push: one commit
beside       what `swarm up` starts for SWARM_PUSH_REPO
"""
