"""Accounts of privacy budgets: what was promised, what is spent, what is left."""
