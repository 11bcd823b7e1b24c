"""Say what a release shows: the numbers of its page, verdicts on columns, and words."""
