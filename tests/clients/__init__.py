"""Other people's clients, as their users run them. A room of its own: each client has its own environment."""
