"""What is promised: guarantees, budgets, calibration and the ledger."""
