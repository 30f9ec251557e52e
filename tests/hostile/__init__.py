"""What a hostile or broken client sends, as data, and the means to send it byte by byte."""
