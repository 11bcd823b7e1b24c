"""What reaches a user's machine: locked packages, their list, a wheel that anyone can rebuild, and no network."""
