"""The autoscaler: starts and drains factories according to demand."""
