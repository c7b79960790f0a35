// An assembly file lets Go functions without a body be linked; see unexported.go.
