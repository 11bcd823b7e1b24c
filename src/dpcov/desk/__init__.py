"""A page on the custodian's own machine that goes the whole way from a table to a released file."""
