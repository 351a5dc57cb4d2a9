"""What can go wrong in a training run, each with one clear sentence.

TrainingError
├── ConfigError        unknown key, wrong type, impossible value
├── LoadError          a model folder is incomplete, or asks for code of its own
├── CorpusError        missing or empty corpus, a line that is not a pair
├── FetchError         a corpus that cannot be downloaded
├── LeakageError       an evaluation sentence is in the training text
├── EvaluationError    no model or evaluation set where one should be, or a malformed line in one
├── StepMismatchError  a finished step was made with another configuration
├── DivergedError      the loss is not a finite number
├── CheckpointError    a stage has nothing sound left to go on from
└── PeerError          another process of the same run stopped
"""


class TrainingError(Exception):
    """A run cannot go on; the message says why and what to change."""


class ConfigError(TrainingError):
    """The configuration file is wrong."""


class LoadError(TrainingError):
    """A model cannot be loaded whole, or not without code from its folder."""


class CorpusError(TrainingError):
    """The parallel text is missing, empty or malformed."""


class FetchError(TrainingError):
    """A corpus cannot be downloaded, or what came is not what it should be."""


class LeakageError(TrainingError):
    """An evaluation sentence is in the training text."""


class EvaluationError(TrainingError):
    """There is no such model or evaluation set, or one of its lines is malformed."""


class StepMismatchError(TrainingError):
    """The output folder holds work of another configuration."""


class DivergedError(TrainingError):
    """The loss is no longer finite."""


class CheckpointError(TrainingError):
    """Every checkpoint that a stage could go on from is damaged."""


class PeerError(TrainingError):
    """Another process of the same run stopped, and said why."""
