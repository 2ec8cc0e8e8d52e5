"""Factories that come and go with the work: who is started, who is drained, and by whom."""
