"""Tells who wrote a file of the shared folder, where its reader asks: Ed25519 signatures, and keys trusted on first
use.

    own key ─seal─▶ file in the folder ─check─▶ key pinned for its author ─same─▶ read on
               ▲                         ▲              └ none yet: pin this one
               └─ the experiment's id ───┘ (birth.py)

A shared folder has no logins: whoever can write to it can write in anybody's name. Off by default; with the setting
`signing` nodes sign what they publish and hold each author to the key it was first seen with. The pins are kept on
this machine, never in the shared folder. What a signature cannot do: bring back a file that a stranger overwrote.
"""
