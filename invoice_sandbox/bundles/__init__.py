"""Bundles: a workspace as one file, which can be read, judged and replayed."""
