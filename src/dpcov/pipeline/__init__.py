"""The way through the house: refuse early, gather, charge, draw, write; and the plan before it."""
