"""Audit of rollouts: texts that any engine wrote to a file, against the policy that they are said to come from."""
