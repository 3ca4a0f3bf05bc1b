"""A node: pure state machines that decide, and the loops that carry out what they decide.

be           daemon               a node as a process (in_process: several in one, dealing: which of them gets what)
             presence             registration, heartbeat, one process per name (names, host: of whom)
             experiment           what makes it the same one
             stopping             signals
             executor             the compute thread (lease: turns of several processes on one device)

worker       worker_machine       which step is next, of which peer which round's groups are taken, whose clock it is
             attendance, pace     which peers are waited for, and how long
             worker               the loop; also loads at the start and saves
             round_steps          the steps of a round (round_work: its data, splits: its I and J, metrics_row: its row)
             draws                which questions a node asks itself
             own_groups           its answers: written, or found again after its death
             held_out             what a judge asks it
             outbox               what must reach the folder, in order, also when that is full or read-only

see          lookout              the clock, who is alive, which files are there
             clock_file           the state file, as far as it can be believed
             trouble              what goes wrong at every look is told once

peers        intake               their files, one after the other, into the pool
             quarantine           who is not read for now, and for how long
             selection, turns     whose files are read of too many, and in which order
             reading              what a file says, who signed it, whether it has changed since
             admission            which groups may come in at all
             verification         what they are worth, and which claims about them are false
             pool                 what may be learned from, without copies
             trained_groups       what was learned from already
             intake_counts        what is told of all that

after death  checkpoints          whole or not there at all
             redo                 the rounds since the last checkpoint once more

coordinator  coordinator          in office or in the wings
             coordinator_machine  when a round opens and ends
             clock_keeper         in office (submissions: who has done the round, resume: where the clock goes on)
             wings                waiting until nobody keeps the clock

measure      clock, timeline, lag
"""
