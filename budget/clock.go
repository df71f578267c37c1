package budget

import "time"

// century bounds every budget, so that arithmetic on its end can neither overflow nor drop the monotonic reading
// (package time keeps one only up to the year 2157).
const century = 100 * 365 * 24 * time.Hour

// The two clocks, apart from each other so that tests can step one alone. One reading of both is taken when a budget
// starts; everything later asks the monotonic one.
var (
	readClocks = func() (wall, mono time.Time) { t := time.Now(); return t.Round(0), t }
	since      = time.Since
)

// monotonic reports whether t carries a monotonic reading. Round(0) strips it, and == sees the difference.
func monotonic(t time.Time) bool { return t != t.Round(0) }

// until is the time from the two readings to t: by the monotonic clock if t has a reading of it, else by the wall.
func until(t, wall, mono time.Time) time.Duration {
	if monotonic(t) {
		return t.Sub(mono)
	}
	return t.Sub(wall)
}
