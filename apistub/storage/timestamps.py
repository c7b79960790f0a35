"""Times as the API writes them."""

import math
from datetime import UTC, datetime
from functools import lru_cache


def time_text(moment: datetime) -> str:
    """A `Time`: UTC, whole seconds."""
    return _second_text(math.floor(moment.timestamp()))


@lru_cache(maxsize=1024)
def _second_text(second: int) -> str:
    # Formatting takes 20 us, and thousands of objects are created within a second.
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"
