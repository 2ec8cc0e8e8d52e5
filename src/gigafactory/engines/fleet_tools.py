"""The tools of the fleet, as engines are told of them: `aq mcp`, and what it has to be passed."""

NAME = "gigafactory"
ARGUMENTS = ("mcp",)
VARIABLES = ("AQ_FLEET_API", "AQ_FLEET_TOKEN", "AQ_JOB_ID")
"""By which it finds the fleet; an engine passes them on by name, and no secret is in a file."""
