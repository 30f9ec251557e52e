"""Screenshots of the console for the documentation, and how fast it is: ``make console-shots``."""
