package posting

import (
	"net/url"
	"strings"
)

// ID joins a job's board, company and the board's own id for it. Slashes may
// stand in local; whatever else would not survive being written down is
// escaped as in a URL.
func ID(board, company, local string) string {
	return board + "/" + url.PathEscape(company) + "/" + strings.ReplaceAll(url.PathEscape(local), "%2F", "/")
}

// SplitID is the reverse of ID. It reports false for what ID never makes.
func SplitID(id string) (board, company, local string, ok bool) {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return "", "", "", false
	}
	company, err := url.PathUnescape(parts[1])
	if err != nil {
		return "", "", "", false
	}
	local, err = url.PathUnescape(parts[2])
	if err != nil {
		return "", "", "", false
	}
	return parts[0], company, local, true
}
