"""The command line `aq`: one command a file, each imported when it is asked for."""
