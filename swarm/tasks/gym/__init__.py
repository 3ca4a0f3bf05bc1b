"""reasoning-gym, the first task family: the nine SAPO tasks in our profiles, and any dataset that a run defines.

    family           what nodes know of it: name, version, profiles
    profiles         how hard each of the nine tasks is asked; their names
    questions        make and score the nine, in the scoring server's children

    names            the datasets of the installed version, and what can be told of a definition without it
    defined          make and score the run's own tasks
    configuration    level and parameters in the library's types
    entries          questions of any dataset, and making a process ready for them
    first_questions  whether a definition's first ones can be made within limits
    plain            metadata as JSON has it
    strict_datasets  what counts as right under scoring 2; strict, together and meaning have it for the nine

    imports          the modules of the datasets asked for, without the hundred others
    disarm           takes away what executes strings, and reads files once
    safe_eval        what stands in for `eval`
    safe_sympy       what stands in for sympy's

Holes of reasoning-gym that are closed here: answers that it evaluates (binary_matrix, spiral_matrix, string_insertion,
n_queens, and by sympy countdown, puzzle24 and the algebra), questions that it evaluates, and code that it makes. Under
scoring 1 and in the profiles of replications rewards stay reasoning-gym's, which pay for some wrong answers.
"""
