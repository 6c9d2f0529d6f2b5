"""How properties are tried here: as long as an example takes, for a slow machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
