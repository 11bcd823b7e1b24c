"""What reaches a user: locked packages and their list, a reproducible wheel, no network."""
