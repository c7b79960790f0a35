"""Records the engine's events and answers, and replays them.

    records.py     encodes one event with its answer as a line of JSON, and decodes it
    redaction.py   leaves out what no scheduling reads
    files.py       lines in compressed, checked blocks; files that rotate
    directory.py   records all events from the start: `stowage run --record DIR`
    flight.py      keeps the last minutes in memory, for crashes and for /debug/recording
    replay.py      passes the same events to a fresh engine, and compares the answers
    comparison.py  runs the same cluster under another configuration

An engine has more state than the objects that it received (backoff, random numbers that break ties,
attempts in progress), so a recording can be replayed exactly only from the beginning.
"""
