"""Tests of the system layer."""
