"""The engine's events and its answers, recorded and read back.

    records.py     one event with its answer, as a line of JSON, and back
    files.py       lines in compressed, checked blocks; files that rotate
    directory.py   everything, from the start: `stowage run --record DIR`
    flight.py      the last minutes, in memory: for crashes, and for operators
    replay.py      the same events to a fresh engine: the same answers?
    comparison.py  the same cluster under another configuration

An engine remembers more than the objects it received (back-off, the random numbers that break ties,
attempts under way), so a recording can be replayed to the last byte only from the beginning.
"""
