"""Running programs: start, output, limits, signals, control groups and removal of orphans."""
