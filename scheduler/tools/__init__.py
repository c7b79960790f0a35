"""The tools for users: the commands, and the engine on files."""
