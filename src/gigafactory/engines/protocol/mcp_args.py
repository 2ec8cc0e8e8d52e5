"""The tools of the fleet, as engines are told of them: `aq mcp`, and what it has to be passed."""

NAME = "gigafactory"
ARGUMENTS = ("mcp",)
VARIABLES = ("AQ_FLEET_API", "AQ_FLEET_TOKEN", "AQ_JOB_ID")
"""By which it finds the fleet; an engine passes them on by name, and no secret is in a file."""
NETWORK_VARIABLES = tuple(
    """
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR
    """.split()  # noqa: SIM905 - names read best as text
)
"""How it reaches the network, for engines that pass on only what is listed."""
