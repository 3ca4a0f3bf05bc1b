"""reasoning-gym, the first task family: the nine SAPO tasks in our profiles, and any dataset that a run defines.

    family           what nodes know of it: name, version, profiles
    profiles         how hard each of the nine tasks is asked; their names
    names            the datasets of the installed version, and what can be told of a definition without it

    questions        make and score, in the scoring server's children
    entries          questions of any dataset, and making a process ready for them
    first_questions  whether a definition's first ones can be made within limits
    strict           what counts as right; together has it for propositional_logic

    imports          the modules of the datasets asked for, without the hundred others
    disarm           takes away what executes strings, and reads files once
    safe_eval        what stands in for `eval` and for sympy's

Holes of reasoning-gym that are closed here: answers that it evaluates (binary_matrix, spiral_matrix, string_insertion,
n_queens, and by sympy countdown, puzzle24 and the algebra), questions that it evaluates, and code that it makes. In the
profiles of replications rewards stay reasoning-gym's, which pay for some wrong answers.
"""
