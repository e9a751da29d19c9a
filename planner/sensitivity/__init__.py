"""Which inputs matter, what a price must be, and what would have to be true."""

from planner.sensitivity.analysis import (
    Bar,
    Index,
    Learning,
    Needed,
    WhatMustHold,
    break_even,
    probability_better,
    shares_of_ratio,
    sobol_indices,
    tornado,
    value_of_learning,
    what_must_hold,
)

__all__ = ["Bar", "Index", "Learning", "Needed", "WhatMustHold", "break_even", "probability_better", "shares_of_ratio", "sobol_indices", "tornado",
           "value_of_learning", "what_must_hold"]
