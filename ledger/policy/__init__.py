"""The policy of a user: the parameters of a user's memory, and the commands that change them."""
