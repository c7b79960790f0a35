"""What people run: the commands, and the engine on files."""
