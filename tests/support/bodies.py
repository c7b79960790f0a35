"""Bodies that are there already, for those who read them in parts."""


class WholeBody:
    """See `scheduler.daemon.client.body.Body`.

    Args:
        body: all of it.
        part_bytes: how much is given at a time.
    """

    def __init__(self, body: bytes, part_bytes: int = 2**18) -> None:
        parts = range(0, len(body), part_bytes)
        self._parts = iter([body[start : start + part_bytes] for start in parts])

    async def read(self) -> bytes:
        """See `Body.read`."""
        return next(self._parts, b"")
