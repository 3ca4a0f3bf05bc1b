"""Models as the plan knows them, with footprints as traces gave them."""

from __future__ import annotations

import msgspec

from swarm.planner.footprint import Footprint, Linear, Peak, Way
from swarm.planner.node_memory import SizedModel
from swarm.planner.shape import ModelShape

_FLAT = Peak(Linear(0, 0, 0, 0), Linear(0, 1000, 100, 4))
FLAT = Footprint(shared=Way(_FLAT, _FLAT), checkpointed=Way(_FLAT, _FLAT))
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
  "shared": [[[351563.335,18039.342,-33.048,0.212],[30086203.029,64946.343,4275.7,4.669]],
    [[8495799.589,36452.808,-2213.207,0.968],[30082352.281,64959.528,3256.505,4.63]]],
  "checkpointed": [[[-2295720.932,18108.011,18108.011,1.794],[30392727.16,1760.806,1760.806,0.075]],
    [[256666490.161,39206.976,39206.976,14.943],[30392727.16,1760.806,1760.806,0.075]]]
}"""),
)
"""Qwen2.5-0.5B under bf16."""
GPT2 = SizedModel(
    ModelShape(
        name="someone/gpt2",
        parameters=124_000_000,
        layers=12,
        hidden=768,
        kv_heads=12,
        head_dim=64,
        vocabulary=50_257,
        context=1024,
    ),
    traced("""{
  "shared": [[[-59400.306,15883.482,-551.135,1.258],[346886.851,84887.815,5707.924,7.493]],
    [[9165151.513,42654.07,-2812.981,1.261],[346886.851,84887.815,5707.924,7.493]]],
  "checkpointed": [[[10829614.302,31691.373,31691.373,2.373],[489894.137,1509.263,1509.263,0.064]],
    [[226030202.788,51825.34,51825.34,16.018],[489894.137,1509.263,1509.263,0.064]]]
}"""),
)
"""GPT-2 in fp32."""

ADAPTED = QWEN._replace(footprint=msgspec.structs.replace(QWEN.footprint, adapter=8_798_208))
"""The same beside which an adapter of rank 16 on all linear layers but the head is trained."""
