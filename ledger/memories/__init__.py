"""What a person does with memories."""
