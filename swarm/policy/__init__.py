"""The policy: a Hugging Face causal LM that generates rollouts and learns. Torch lives here and in the lab's warm-up.

prompt ─▶ generate ─▶ Completion ─ (rewards, sharing) ─▶ TrainGroup ─▶ batch ─▶ forward ─▶ gradient ─▶ optimizer

policy            a generator and a trainer behind swarm.types.Policy
generator         question texts and dialogues -> completions, behind swarm.types.Generator
trainer           one policy update, in two halves, behind swarm.types.Trainer
leased            a trainer that updates only while it holds the device lease
settings          GrpoConfig: what can be tuned; imports no torch
learning_rates    the step size that suits a kind of model and adapter, and why
embedded          where the models that ship with swarm are
model_files       a model's folder as files: what it says, and what is missing
config_sizes      what config.json names, held against the header of the weights
named_by_others   which of the user's own models a shared place means by a name
opening           whether a model out of a shared place may be opened: its files, then a bounded child
opening_child     that child: opens it once without its numbers
given_weights     weights that anybody may have written -> a model of one's own
hub               a model of the Hugging Face Hub: can it be had, and the rest fetched
device            where a model computes, and in what
quantised         frozen weights in 8 or 4 bits
load_probe        a loaded model is tried out: it computes here what transformers computes, or is refused
asked_well        a loaded model's prompt is looked at: the form in which its template shows all of it
model             a name -> model, tokenizer and the facts about them
prompt            a question's text -> prompt tokens
conversation      a model's turns and what the environment said between them -> tokens
lora              adapters beside the frozen layers of a base; which of them is in use
shared_base       a base is loaded once in a process, and all its adapters are stacked
peft_form         an adapter's folder, as PEFT and inference servers read it
merging           an adapter and its base -> the files of one model
adapter_version   an adapter at one moment: its files for a server, and whether completions are of it
snapshot          weights and optimizer <-> a folder of safetensors and JSON
parts             what plugins add to a trainer
memory            out of GPU memory: halve and repeat

generate          prompt tokens -> sampled completions with their log-probs
draw              logits -> one token per row
stops             where a completion first holds a stop string
reasoning         ends a turn's reasoning at its budget: what is forced, and of which rows
prefill           what the prompts leave behind for their completions
decode            the way of decoding that suits model and device
dynamic_decode    one more token per row, on a cache that grows
static_decode     one more token per row, on a cache of fixed size, which CUDA graphs need
buckets           to which sizes those are rounded up
cuda_graphs       record a step once, check it, replay it
decode_weights    bf16 copies of the weights, at fixed addresses

batch             training groups -> padded tensors of one micro-batch
answer_tokens     which tokens of a text are those of its answer
claims            checks a stranger's token ids and log-probs
forward           tensors -> log-prob of every completion token
logprobs          log-probs of chosen tokens: of a matrix head block by block of the vocabulary, of others in chunks
gradient          rows -> gradient, summed over tokens
halves            the same in parts, and the inner products of these
optimizer         scale, clip, AdamW
"""
