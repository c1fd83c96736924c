"""Calls of a model that Gym's own agents do not make: streams, and probes of what there is."""

from __future__ import annotations

import httpx

RELAY = "X-Relay"


async def stream(base_url: str, prompt: str, relayed: bool = True) -> bool:
    """Whether a streamed answer came whole. `relayed` asks the model server to hand on the endpoint's own bytes."""
    fields = {RELAY: "1"} if relayed else {}
    body = {"model": "m", "input": [{"role": "user", "content": prompt}], "stream": True}
    got = b""
    async with httpx.AsyncClient(timeout=30) as client:
        try:
            async with client.stream("POST", f"{base_url}/v1/responses", json=body, headers=fields) as answer:
                async for piece in answer.aiter_bytes():
                    got += piece
        except httpx.TransportError:
            return False
    return b"response.completed" in got


async def probe(base_url: str) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        await client.get(f"{base_url}/v1/models")
        await client.head(f"{base_url}/")
