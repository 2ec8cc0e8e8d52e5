"""What the makers of this program use, and its users do not need."""
