import os

from hypothesis import settings

settings.register_profile("tatml", deadline=None, max_examples=60, derandomize="CI" in os.environ)
settings.load_profile("tatml")
