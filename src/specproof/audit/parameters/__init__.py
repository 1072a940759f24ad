"""The law under sampling parameters: the same with speculation as without it, whatever the parameters."""
