"""The policy: a Hugging Face causal LM that generates rollouts and learns. Torch lives here and in the lab's warm-up.

prompt ─▶ generate ─▶ Completion ─(rewards, sharing)─▶ TrainGroup ─▶ batch ─▶ stack ─▶ forward ─▶ gradient ─▶ optimizer

policy            a generator and a trainer behind swarm.types.Policy
generator         question texts and dialogues -> completions, behind swarm.types.Generator
trainer           one policy update, in two halves, behind swarm.types.Trainer
leased            a trainer that updates only while it holds the device lease, a lock of this machine
settings          GrpoConfig: what can be tuned; imports no torch
embedded          where the models that ship with swarm are; the step size and the device that suit them, and why
model_files       a model's folder as files: what it says, and what is missing
given_weights     weights that anybody may have written -> a model of one's own
hub               a model of the Hugging Face Hub: can it be had, and the rest fetched; what a place means by a name
device            where a model computes, and in what; out of GPU memory: halve and repeat
load_probe        a loaded model is tried out: it computes here what transformers computes, or is refused
asked_well        a loaded model's prompt is looked at: the form in which its template shows all of it
model             a name -> model, tokenizer and the facts about them
prompt            questions, conversations -> tokens
lora              adapters beside the frozen layers of a base; which of them is in use
shared_base       a base is loaded once in a process, and all its adapters are stacked
peft_form         an adapter's folder, as PEFT and inference servers read it
snapshot          weights and optimizer <-> a folder of safetensors and JSON; an adapter and its base as one model
parts             what plugins add to a trainer

generate          prompt tokens -> sampled completions with their log-probs
draw              logits -> one token per row, and its log-prob
forward           prompts -> cache -> one more token per row, or log-prob of every completion token
attention         grouped heads attend without copies of their keys and values, packed rows without padding between them
decode            the way of decoding that suits model and device
static_decode     one more token per row, on a cache of fixed size, recorded as CUDA graphs

batch             training groups -> rows of token ids; what of a stranger's claims is believed
stack             rows -> micro-batches, each the tensors of one forward pass, packed or padded
compiled          what torch.compile makes of a training pass: layers, loss
logprobs          log-probs of chosen tokens: of a matrix head block by block of the vocabulary, of others in chunks
gradient          rows -> gradient, summed over tokens; the same in parts; scale, clip, AdamW
"""
