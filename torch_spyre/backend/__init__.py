"""The back end, which compiles KTIR to the programs that a card executes, and runs these."""
