"""Forms are decoded by many threads."""

from __future__ import annotations

import subprocess
import sys

MANY_AT_ONCE = """
import sys, threading, msgspec
from swarm import forms
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(4)
def form(number):
    inner = msgspec.defstruct(f"Inner{number}", [(f"field_{i}", dict[str, list[int]]) for i in range(20)])
    return msgspec.defstruct(f"Outer{number}", [(f"field_{i}", inner) for i in range(20)])
made = [form(number) for number in range(50)]
inner = "{" + ",".join(f'"field_{i}":{{}}' for i in range(20)) + "}"
outer = "{" + ",".join(f'"field_{i}":{inner}' for i in range(20)) + "}"
def work():
    for one in made:
        barrier.wait()
        DECODE(outer, one)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_many_threads_may_decode_the_first_file_of_a_form_at_once() -> None:
    script = MANY_AT_ONCE.replace("DECODE", "forms.decode")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
