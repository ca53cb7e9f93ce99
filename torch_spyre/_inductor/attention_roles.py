"""What attention is called in loops and specs, and what its symbols stand for."""

# The result, and the logarithms of its rows' sums.
ATTENTION, LOGSUMEXP = "attention", "attentionlogsumexp"
ATTENTION_OPS = (ATTENTION, LOGSUMEXP)

# Symbols of the loops that `lowerings/attention.py` makes; those of one element are not there.
ROLES = {"row": "c2", "value": "c3", "key": "r0", "inner": "r1"}
# In `op_info` of a spec: for each role its symbols, outermost first, with the step of each.
ROLES_INFO = "roles"
