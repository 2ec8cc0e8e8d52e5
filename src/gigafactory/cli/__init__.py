"""The command line `aq`: one command a file, imported on use."""
