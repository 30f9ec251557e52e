"""The request pipeline; ``pipeline`` names its stages."""
