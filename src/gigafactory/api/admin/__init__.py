"""Endpoints for operators: products, budgets, tokens, insights, health."""
