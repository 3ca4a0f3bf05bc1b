"""A plugin outside of the repository: questions about coins, and a sink that keeps rows as lines of JSON."""

import json
import random
from pathlib import Path

from swarm.types import Question, RoundKey


class Counting:
    def prepare(self) -> None: ...

    def make(self, origin) -> Question:
        tosses = random.Random(f"{origin.seed} {origin.index}").choices("HT", k=3)
        return Question(f"How many heads are in {''.join(tosses)}?", origin, str(tosses.count("H")), {})

    def score(self, question, answer) -> float:
        return float(answer.strip() == question.answer)


class Coins:
    name, version, packages = "coins", "1", ()

    def profiles(self):
        return {"tiny": ("heads",), "paper": ("heads",)}

    def behaviour(self) -> Counting:
        return Counting()


class Lines:
    def __init__(self, of) -> None:
        of.folder.mkdir(parents=True, exist_ok=True)
        self.file = Path(of.folder, f"{of.name}.jsonl")

    def written(self, node) -> RoundKey:
        rows = map(json.loads, self.file.read_text().splitlines()) if self.file.exists() else ()
        return max((RoundKey(*row["key"]) for row in rows if row["node"] == node), default=RoundKey(-1))

    def row(self, node, key, at, values) -> None:
        with self.file.open("a") as out:
            out.write(json.dumps({"node": node, "key": key, "values": values}) + "\n")

    def flush(self) -> None: ...

    def close(self) -> None: ...


COINS = Coins()
