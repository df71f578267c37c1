package turnstile

// Before reports whether claim a would be served before claim b if both were in line and b had arrived first. Whoever stands in
// line for several jobs at once, with one Place, finds the best of their claims with it.
func (t *Turnstile) Before(a, b Claim) bool {
	p, q := placeOf(a, t.headStart), placeOf(b, t.headStart)
	return p.before(&q)
}
