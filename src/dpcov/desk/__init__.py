"""A page on the steward's own machine that goes the whole way from a table to a released file."""
