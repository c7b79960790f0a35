"""The four ways to patch an object: JSON patch, merge patch, strategic merge patch, apply."""
