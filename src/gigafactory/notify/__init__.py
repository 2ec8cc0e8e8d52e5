"""The ways to people: messages on their channels."""
