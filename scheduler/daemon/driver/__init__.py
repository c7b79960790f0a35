"""Carries out the engine's instructions and submits events to it: asyncio, and no rules."""
