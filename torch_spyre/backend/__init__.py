"""The back end: from KTIR to the programs that a card executes."""
