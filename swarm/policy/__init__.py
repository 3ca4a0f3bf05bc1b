"""The policy: a Hugging Face causal LM that generates rollouts and learns. Torch lives here and in swarm.warmup.

prompt ──▶ generate ──▶ Completion ─ ─ ─ (rewards, sharing) ─ ─ ─▶ TrainGroup ──▶ batch ──▶ forward ──▶ loss ──▶ trainer

settings    GrpoConfig: what can be tuned; imports no torch
model       a name -> model, tokenizer and the facts about them
prompt      a question's text -> prompt tokens
generate    prompt tokens -> sampled completions with their log-probs
batch       training groups -> padded tensors of one micro-batch
forward     tensors -> log-prob of every completion token
loss        the GRPO objective, per token
trainer     one policy update
snapshot    weights and optimizer <-> a folder of safetensors and JSON
memory      out of GPU memory: halve and repeat
embedded    where the models that ship with swarm are
policy      GrpoPolicy: all of the above behind swarm.types.Policy
"""
