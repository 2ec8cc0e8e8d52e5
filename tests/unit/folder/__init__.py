"""Tests of the folder queue's parts."""
