"""What to expect of a release, from public numbers alone."""
