"""Factories, products, budgets, halt switches and scaling demand."""
