"""What the custodian declares about a table."""
