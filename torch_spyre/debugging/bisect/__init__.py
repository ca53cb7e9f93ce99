"""`spyre bisect`: finds the level at which the result of a program leaves its reference.

`scripts` runs the program in processes of their own, with other settings; `child` is what runs
there. `kernel_levels` asks which part of the stack a wrong kernel comes from, `program_levels` does
so for a program whose kernels are all right. `search` is the order of the questions.
"""
