"""Planner: capacity planning for rack-scale AI clusters, from sourced facts and plain equations."""

__version__ = "0.1.0"
