"""What the stand-in holds, and how it is selected, listed and watched."""
