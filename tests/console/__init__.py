"""Screenshots of the console for the documentation: ``make console-shots``."""
