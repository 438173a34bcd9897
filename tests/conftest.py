"""Settings shared by all tests."""

import hypothesis

hypothesis.settings.register_profile("bandsmith", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("bandsmith")
