"""What happens to objects on their way into the store, and out of it."""
