"""Functions that render domain records as wire records."""
