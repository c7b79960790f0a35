"""The process: bytes in and out, around an engine that decides."""
