"""What it takes to run a model on the card: `spyre enable` in parts.

`subjects` finds the model, `capture` writes down its ops and asks the card about each, `tries` runs
each kind of module on the card with the rest on the CPU, `device_time` asks the timing model about
the whole at full size, and `report`, `page` and `tables` show what was found.
"""
