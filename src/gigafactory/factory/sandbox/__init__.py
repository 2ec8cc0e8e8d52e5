"""The sandbox of jobs: confinement by the operating system, and the proxy for allowed hosts."""
