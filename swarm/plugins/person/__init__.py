"""A person as a policy: questions on a terminal, answers from a keyboard.

    compute thread                         event loop                                        terminal
    Person.generate ─RoundOpened─▶ Session: what has been asked, answered, ended ─lines to show─▶
           ▲                          ▲  ▲  └ TypedLine ◀─────────────────────── lines that were typed
           └─ groups ─────────────────┘  └ RoundOver ◀─ the node says that its round is over

session.py decides, and is pure; terminal.py reads and writes; person.py brings them together; news.py tells what became
of answers.
"""
