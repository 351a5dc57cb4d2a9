"""Goes on training a finished model with a user's pairs, by stage 4 (Ding et al. 2022); `crosslet adapt`."""
