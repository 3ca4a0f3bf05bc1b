"""reasoning-gym's nine SAPO tasks, the first task family.

    family      what nodes know of it: name, version, profiles
    profiles    how hard each task is asked; the tasks' names
    questions   make and score, in the scoring server's children
    imports     the nine tasks' modules without the hundred others, and without what executes strings
    safe_eval   what stands in for `eval`

Holes of reasoning-gym that are closed here: binary_matrix evaluates answers, basic_arithmetic its questions, and bf
makes namedtuples by executing text. Known and left, as rewards must stay reasoning-gym's: fraction_simplification,
propositional_logic and calendar_arithmetic pay a little for some wrong answers.
"""
