"""The page frozen into one file that opens from a disk: style, scripts, and the answers to what a page asks for.

    WebLook ─▶ documents by the path that a live page asks for ─▶ gzip, base64 ─▶ a script element of data
    assets ─▶ index.html with style and scripts in place, each allowed by its digest alone

Of the answers a sample of rounds is kept. Nothing in the file is fetched from anywhere.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from swarm.errors import SwarmError
from swarm.types import RoundKey
from swarm.web import assets
from swarm.web.harmless import encoded
from swarm.web.journal import Journal, wanted
from swarm.web.look import WebLook
from swarm.web.series import DRAWN

MOST_OF_ANSWERS = 1_500_000
"""Bytes of the sample of answers, before they are packed."""
SAMPLED = 8
"""Rounds of which answers are kept, spread over the run."""
SAMPLED_NODES = 8
"""Nodes of each of them."""
MODULES = ("uPlot.iife.min.js", "data.js", "text.js", "charts.js", "views.js", "answers.js", "main.js")
"""In the order in which they need each other."""
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def frozen_page(experiment: str, look: WebLook, place: Mapping[str, Any], wall: float) -> bytes:
    """Returns the file.

    Args:
        look: at the run, refreshed.
        place: what the place holds.
        wall: Unix seconds, for the page to say of when it is.
    """
    documents = dict(_documents(look)) | {"/api/place": place, "series": look.series(DRAWN)}
    return _page({"experiment": experiment, "wall": wall, "documents": documents})


def _documents(look: WebLook) -> Iterator[tuple[str, Any]]:
    """Yields each document that a page asks for, with the end of its path."""
    yield "standing", look.standing()
    yield "matrix", look.matrix()
    yield "settings", look.made_with()
    yield "tasks", look.tasks()
    for node in [*look.history][:64]:
        yield f"tasks?node={node}", look.tasks(node)
    journal = Journal(look.run, wanted([], "info", "*"))
    yield "journal", {"events": journal.more(), "whole": journal.is_whole}
    yield from _sampled(look)


def _sampled(look: WebLook) -> Iterator[tuple[str, Any]]:
    """Stages and answers of some rounds, the last ones first, as long as they have room."""
    room, rounds = MOST_OF_ANSWERS, list[int]()
    for round_ in sampled_rounds(look.standing().get("rounds_done") or 0):
        stages, kept = dict[str, list[str]](), dict[str, list[str]]()
        with suppress(SwarmError):
            stages = look.stages(round_)["stages"]
        for stage, nodes in stages.items():
            for node in nodes:
                if len(kept.get(stage, ())) == SAMPLED_NODES:
                    break
                with suppress(SwarmError):
                    document = look.answers(RoundKey(round_, int(stage)), node)
                    room -= len(json.dumps(document))
                    if room > 0:
                        kept.setdefault(stage, []).append(node)
                        yield f"answers/{round_}/{stage}/{node}", document
        if kept:
            rounds.append(round_)
            yield f"stages/{round_}", {"round": round_, "stages": kept}
    yield "sampled", sorted(rounds)


def sampled_rounds(rounds: int) -> list[int]:
    """Spread over so many rounds, the last one first."""
    if rounds <= SAMPLED:
        return [*range(rounds)][::-1]
    return sorted({round(place * (rounds - 1) / (SAMPLED - 1)) for place in range(SAMPLED)}, reverse=True)


def _page(kept: Mapping[str, Any]) -> bytes:
    files = assets.served()
    style = "\n".join(files[name].decode() for name in ("uPlot.min.css", "style.css"))
    library, *modules = (files[name].decode() for name in MODULES)
    script = "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)
    packed = base64.b64encode(gzip.compress(encoded(kept).encode(), 9, mtime=0)).decode()
    policy = (
        f"default-src 'none'; script-src {_digest(library)} {_digest(script)}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = files[assets.PAGE].decode().replace("{{experiment}}", str(kept["experiment"]))
    head, _, body = page.partition("<!-- files -->")
    _, _, body = body.partition("<!-- /files -->")
    return (
        f'{head}<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<style>{style}</style>\n<script type="application/octet-stream" id="frozen">{packed}</script>\n'
        f'<script>{library}</script>\n<script type="module">{script}</script>{body}'
    ).encode()


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
