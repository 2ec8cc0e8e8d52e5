"""Dashboard data of a folder queue."""
