"""The fleet as tools of a coding agent, over the Model Context Protocol."""
