"""How right it is: recall, extraction, policies and guards on data with known answers."""
