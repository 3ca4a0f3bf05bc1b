"""A node: pure state machines that decide, and the loops that carry out what they decide.

round.py tells one round of a worker from its first line to its last; it is of the worker's room.

Five rooms; imports point along the arrows against the flow, and nowhere else:

    base ──▶ sharing ──▶ worker ──▶ process
      └────▶ coordinator ──────────────┘

base         what every node has
  context                               what every part is given: store, clock, how blocking work is done
  log_once, timeline                    repeated problems said once, and waited for; intervals
  rhythm                                when to look at a place that charges for looks
  presence, attendance                  registration and heartbeat, which of them beat, who is waited for
  settling                              when workers that are started one after the other begin together
  clock_belief                          the state file as far as it can be read, and when a jump in it is believed
  experiment                            experiment.json, and the files that its tasks are asked from
  start_record, submissions             what the node was started with, rewards
  cleaning                              old rounds are cleaned up, by turns
  write_queue                           what must reach the shared place, in order, also when that is full or read-only

sharing      peers' files on their way into the swarm pool
  assigned_questions                    which questions a node asks itself, and its peers may answer; by whose mixture
  intake                                lists peers' files, and has drawn what groups of them are looked at
  published                             what a node published for one stage, read again
  contexts                              groups of the stage before, which a later stage's questions show
  early_groups                          groups that are published before the file that names them, verified early
  examination                           one file after the other: read once, and verified as far as it is drawn
  selection                             whose files are read of too many, in which order, and whose not for now
  reading, admission, verification      what a file says, which groups may come in, what they are worth
  pool                                  what may be learned from, and what was
  intake_counts                         what is told of it, in the row and in the log

worker       one training node
  worker, context                       the loop that carries out decisions; what every part is given
  worker_machine, events                which step is next; what it is told and asks for; how long peers are waited for
  starting, redo                        loading, restoring; the rounds since the last checkpoint once more
  lookout                               the round clock, who is alive, which files are there
  steps, row                            what each step of a round hands to the next; the row that is made of it
  hooks, features                       where features join in a round; those that are on
  ij_schedule                           I and J of each round
  own_groups, own_completions           own questions, completions, rewards; token ids kept for redo
  dynamic_sampling                      fresh questions in the place of groups without a signal
  conversing                            turn by turn, where tasks reply
  round_files                           what a round leaves in the shared place, in order
  held_out                              answers to a judge
  hint_log                              says once what makes the node useless although nothing fails, and what the first
                                        round tells of the others
  first_day                             the date of a node's first start, for prompts that have one
  saving, checkpoints                   when one is written, and how
  last_state                            what is kept elsewhere where the place takes no more

coordinator  the round clock
  coordinator                           active or standby
  coordinator_machine                   when a round opens and ends; how long a node that loads again is waited for
  clock_keeper                          who is alive, who has submitted; the state file, read and written; why it stands
  resume                                where the clock goes on

process      a node as a process
  daemon, in_process, wiring            one node, several, and how their parts are put together
  worker_settings                       which of several workers gets what; made-up node ids
  announcing                            registered while somebody has yet to begin the experiment
  generator_only                        nodes that train nothing: generator, person, evaluator
  together                              generation of several nodes as one step
  system, host, executor                clock, threads and the loop's lag; which process this is; the compute thread
  lease, stopping                       one device for several processes, signals
"""
