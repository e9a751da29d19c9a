"""Property tests draw the same examples on every run, so that a run is never red by chance; `make soak` draws others."""

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
