"""Histories of crashes and races, played on the real coordinator and judged from outside."""
