"""Histories of crashes, races and losses, played on the real coordinator and judged from outside."""
