"""The dashboard on a real fleet, on a real folder, and in a real terminal."""
