package signaltest

// With returns the target with other limits in one check.
func (t Target) With(check string, own Limits) Target {
	t.limitsOf = map[string]Limits{check: own}
	return t
}
