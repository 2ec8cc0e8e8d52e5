"""How engines start the fleet's MCP server: `aq mcp` and the variables it needs."""

NAME = "gigafactory"
ARGUMENTS = ("mcp",)
VARIABLES = ("AQ_FLEET_API", "AQ_FLEET_TOKEN", "AQ_JOB_ID")
"""Address, token and job; engines pass them on by name, so no file contains a secret."""
NETWORK_VARIABLES = tuple(
    """
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR
    """.split()  # noqa: SIM905 - names read best as text
)
"""Network settings, for engines that pass on only listed variables."""
