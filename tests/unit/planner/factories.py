"""Models as the plan knows them, with footprints as traces gave them."""

from __future__ import annotations

import msgspec

from swarm.planner.footprint import Footprint, Linear, Peak, Way
from swarm.planner.node_memory import SizedModel
from swarm.planner.shape import ModelShape

_FLAT = Peak(Linear(0, 0, 0, 0), Linear(0, 1000, 100, 4))
FLAT = Footprint(kept=Way(_FLAT, _FLAT), checkpointed=Way(_FLAT, _FLAT))
"""Made up."""


def traced(text: str) -> Footprint:
    """Of what the tracing child printed."""
    return msgspec.json.decode(text, type=Footprint)


QWEN = SizedModel(
    ModelShape(
        name="someone/half-a-billion",
        parameters=494_000_000,
        layers=24,
        hidden=896,
        kv_heads=2,
        head_dim=64,
        vocabulary=151_936,
        context=32_768,
    ),
    traced("""{
  "kept": [[[351563.335,18039.342,-33.048,0.212],[30086203.029,64946.343,4275.7,4.669]],
    [[8495799.589,36452.808,-2213.207,0.968],[30082352.281,64959.528,3256.505,4.63]]],
  "checkpointed": [[[-2295720.932,18108.011,18108.011,1.794],[30392727.16,1760.806,1760.806,0.075]],
    [[256666490.161,39206.976,39206.976,14.943],[30392727.16,1760.806,1760.806,0.075]]]
}"""),
)
"""Qwen2.5-0.5B under bf16."""

ADAPTED = QWEN._replace(footprint=msgspec.structs.replace(QWEN.footprint, adapter=8_798_208))
"""The same beside which an adapter of rank 16 on all linear layers but the head is trained."""
