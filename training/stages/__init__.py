"""The four stages of Ding et al. 2022, each an `Objective` for `training.loop.train`."""
