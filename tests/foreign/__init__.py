"""Contracts that others have made, served as they are: does every operation respond as it says?"""
