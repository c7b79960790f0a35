"""Resource versions, which are numbers that grow.

Source: KEP-5504 (comparable resource versions), apimachinery pkg/util/resourceversion v1.36.
"""


def is_older_version(version: str, other: str) -> bool:
    """Whether a version of an object comes before another; text that is no number never does."""
    if not (version.isdecimal() and other.isdecimal()):
        return False
    # Not by int(): it refuses numbers of thousands of digits, which a server might send.
    return (len(version), version) < (len(other), other)
