"""The policies: rules that act by themselves after an event, and the rules that several commands share."""
