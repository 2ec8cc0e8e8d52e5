"""Assembly: chooses adapters and builds each part from the settings."""
