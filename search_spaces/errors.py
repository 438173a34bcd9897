"""The errors bandsmith raises on purpose, one tree.

The command line turns `InputError` and `UnsupportedError` into one line and exit code 2; every other member is a failure of the
work itself (exit code 1). Nothing here is raised for a programming mistake.
"""


class BandsmithError(Exception):
    """Base of all deliberate errors."""


class InputError(BandsmithError, ValueError):
    """An argument is outside what is allowed; the message is one sentence naming argument, value and what is allowed."""


class UnsupportedError(InputError):
    """The arguments are each valid, but this combination can never be served; the message says which ones can."""


class NumericalError(BandsmithError, ArithmeticError):
    """A computation produced a value that cannot be trusted (NaN, infinity, lost mass); the message says which and why."""


class UnresolvedError(BandsmithError):
    """Too few effective samples to state an estimate at all; more samples or another accountant are needed."""


class CalibrationError(BandsmithError):
    """No noise multiplier in the searched range meets the target; the message says what was tried."""


class HorizonExceeded(BandsmithError):
    """A step beyond the T steps that a mechanism was accounted for; its guarantee ends there."""


class ExportError(BandsmithError):
    """A training run is not the one its export describes; the message says what is missing or differs."""


class CertificateError(BandsmithError):
    """A certificate does not support what it claims; the message names the first thing that failed."""


class RunError(BandsmithError):
    """A run cannot go on, because its files cannot be written or its cluster is gone; what it has done is kept, and it can be resumed."""
