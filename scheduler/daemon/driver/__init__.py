"""The driver carries the engine's instructions out and brings it events: asyncio, and no rules."""
