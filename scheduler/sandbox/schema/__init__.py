"""The shape of the kinds the sandbox serves: types of fields, and how lists merge."""
