"""The errors of a training run; each message says what is wrong and what to change.

TrainingError
├── ConfigError        unknown key, wrong type, impossible value
├── LoadError          a model is incomplete, or needs code from its folder
├── CorpusError        missing or empty corpus, a line that is not a pair
│   └── BadLineError   the last alone
├── FetchError         a corpus cannot be downloaded
├── LeakageError       an evaluation sentence is in the training text
├── EvaluationError    a model or evaluation set is missing or malformed
├── AlignmentError     pairs from which no head can be learnt, or a model that takes none
├── StepMismatchError  a finished step was made with another configuration
├── DivergedError      the loss is not a finite number
├── CheckpointError    every checkpoint of a stage is damaged
└── PeerError          another process of the same run stopped
"""


class TrainingError(Exception):
    """A run cannot go on; the message says why and what to change."""


class ConfigError(TrainingError):
    """The configuration file is wrong."""


class LoadError(TrainingError):
    """A model is incomplete, or needs code from its folder."""


class CorpusError(TrainingError):
    """The parallel text is missing, empty or malformed."""


class BadLineError(CorpusError):
    """A line of parallel text is not a pair."""


class FetchError(TrainingError):
    """A corpus cannot be downloaded, or its download is unusable."""


class LeakageError(TrainingError):
    """An evaluation sentence is in the training text."""


class AlignmentError(TrainingError):
    """Pairs from which no head can be learnt, or a model that takes none."""


class EvaluationError(TrainingError):
    """A model or evaluation set is missing or malformed."""


class StepMismatchError(TrainingError):
    """The output folder holds work of another configuration."""


class DivergedError(TrainingError):
    """The loss or its gradient is not finite."""


class CheckpointError(TrainingError):
    """Every checkpoint that a stage could resume from is damaged."""


class PeerError(TrainingError):
    """Another process of the same run stopped, and said why."""
