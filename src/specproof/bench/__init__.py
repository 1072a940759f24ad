"""Is speculation worth it here? Drafters side by side in one run, a cost model, and advice in words."""
