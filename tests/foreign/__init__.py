"""Contracts that others have made, served as they are: does every operation answer as it says?"""
