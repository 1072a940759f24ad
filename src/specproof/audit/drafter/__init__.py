"""The contract of drafters: what they propose is drawn from the rows that they return with it."""
