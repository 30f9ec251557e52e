"""The same generated requests to an earlier version and to this one: ``make differential``."""
