"""Types and helpers shared by the factory packages, such as assignments and data folders."""
