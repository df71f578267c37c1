package posting

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// CanonicalURL is one spelling for the addresses of one page: https unless the
// address names a port, the host in lower case without its default port, no fragment, no parameters that only
// say where a visitor came from, the others sorted, no slash at the end. What
// names the job stays ("gh_jid"). It returns "" for what is not an http or https
// address that a person could be sent to.
func CanonicalURL(raw string) string {
	raw = strings.TrimSpace(raw)
	if len(raw) > 4096 {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" {
		return ""
	}
	if u.Scheme != "https" && u.Scheme != "http" { // url.Parse has lowered it
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" || strings.ContainsAny(host, " %") {
		return ""
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	scheme := "https"
	if port := u.Port(); port != "" && port != "443" && !(port == "80" && u.Scheme == "http") {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		scheme = u.Scheme
	}
	canonical := url.URL{Scheme: scheme, Host: host}
	path := strings.TrimRight(upperEscapes(u.EscapedPath()), "/")
	if canonical.Path, err = url.PathUnescape(path); err != nil {
		return ""
	}
	canonical.RawPath = path
	canonical.RawQuery = query(u.RawQuery)
	if strings.HasPrefix(u.Fragment, "/") || strings.HasPrefix(u.Fragment, "!") { // a page of a program in the page
		canonical.Fragment = strings.TrimRight(u.Fragment, "/")
	}
	return canonical.String()
}

func query(raw string) string {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return raw
	}
	for name := range values {
		// A ref with a digit in it may be the job's number.
		if tracking(name) || name == "ref" && !strings.ContainsAny(strings.Join(values[name], ""), "0123456789") {
			delete(values, name)
		}
	}
	for _, list := range values {
		slices.Sort(list)
	}
	return values.Encode()
}

// tracking names parameters that say where a visitor came from.
func tracking(name string) bool {
	name = strings.ToLower(name)
	for _, prefix := range []string{"utm_", "mc_", "_hs", "hsa_", "pk_", "mtm_", "piwik_", "trk"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "gh_src", "lever-source", "lever-origin", "lever-via", "lever-social", "ashby_src", "source", "src",
		"referer", "referrer", "refid", "trackingid", "fbclid", "gclid", "gbraid", "wbraid", "dclid", "msclkid", "yclid",
		"twclid", "ttclid", "li_fat_id", "igshid", "iis", "iisn", "mkt_tok", "_ga", "_gl", "trid", "dcr_ci", "sourcetype":
		return true
	}
	return false
}

// upperEscapes spells the same escapes the same way.
func upperEscapes(path string) string {
	b := []byte(path)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToUpper(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}
