"""A node: pure state machines that decide, and the loops that carry out what they decide.

round.py tells one round of a worker from its first line to its last; it is of the worker's room.

Five rooms; imports point along the arrows against the flow, and nowhere else:

    base ──▶ sharing ──▶ worker ──▶ process
      └────▶ coordinator ──────────────┘

base         what every node has
  context                               what every part is given: store, clock, how blocking work is done; intervals
  looking                               when to look at a place that charges for looks; repeated problems said once
  presence                              registration and heartbeat, which of them beat
  attendance                            who is waited for, at the beginning and in each round; rewards that count
  clock_belief                          the state file as far as it can be read, and when a jump in it is believed
  experiment                            experiment.json, the files that its tasks are asked from, what the node was
                                        started with
  cleaning                              old rounds are cleaned up, by turns
  write_queue                           what must reach the shared place, in order, also when that is full or read-only

sharing      peers' files on their way into the swarm pool
  intake                                lists peers' files, and has drawn what groups of them are looked at
  contexts                              groups of the stage before, which a later stage's questions show
  examination                           one file after the other: read once, and verified as far as it is drawn
  selection                             whose files are read of too many, in which order, and whose not for now; what is
                                        told of it in the row
  reading                               what a file says, also when it is read again
  admission                             which questions a node asks itself, and which groups of its peers may come in
  verification                          what they are worth
  pool                                  what may be learned from

worker       one training node
  worker, context                       the loop that carries out decisions; what every part is given
  worker_machine, events                which step is next; what it is told and asks for; how long peers are waited for
  starting                              loading, restoring; the rounds since the last checkpoint once more
  lookout                               the round clock, who is alive, which files are there
  steps, row                            what each step of a round hands to the next, I and J of it; its row
  hooks, features                       where features join in a round; the core's own: answers to a judge, hints, and
                                        what the first round tells of the others
  own_groups                            own questions, completions, rewards; fresh questions for groups without a signal
  conversing                            answers of its policy, turn by turn where tasks reply
  round_files                           what a round leaves in the shared place, in order; read again after a kill
  checkpoints                           how they are written and read; the date of the first start, for prompts
  saving                                when one is written; what is kept elsewhere where the place takes no more

coordinator  the round clock
  coordinator                           active or standby
  coordinator_machine                   when a round opens and ends; how long a node that loads again is waited for
  clock_keeper                          who is alive, who has submitted; the state file, read and written; why it stands
  resume                                where the clock goes on

process      a node as a process
  daemon, wiring                        one node, several, one that waits for its experiment; how their parts are put
                                        together
  worker_settings                       which of several workers gets what; made-up node ids
  generator_only                        nodes that train nothing: generator, person, evaluator
  together                              generation of several nodes as one step
  system, host                          clock, threads, signals; which process this is
"""
