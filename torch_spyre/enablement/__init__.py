"""`spyre enable`: report which parts of a model run on the card, and how fast.

`model_lookup` finds the model, `capture` records its ops and whether each is native,
`module_trials` runs each module class on the card with the remaining modules on the CPU,
`device_time` estimates the full-size model with the timing model, and `json_report`, `html_report`
and `terminal_report` present the findings. `evaluation` runs these in order.
"""
