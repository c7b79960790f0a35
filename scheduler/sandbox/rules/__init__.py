"""What an API server does to objects on their way in: defaults, admission, validation.

One module per kind or group of kinds; `table` says which kind follows which rules.
"""
