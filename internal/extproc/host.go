package extproc

import (
	"net/netip"
	"strconv"
	"strings"
)

// readHost reads a host as a client sends it, and says what is wrong with it: a
// host that is none would reach the actor as it is, and an authority of a
// CONNECT whose port is none would end at a port that nobody asked for (RFC 9110,
// 9.3.6: it must be refused). Of anything but a CONNECT the port does not count,
// and may be empty (RFC 9110, 4.2.3); so may be the host, as HTTP/1.1 has it for
// targets without one.
func readHost(host string, connect bool) (port uint16, wrong string) {
	name, text, ported := cutPort(host)
	switch {
	case name == "" && (connect || ported):
		return 0, "the host is empty"
	case !isHost(name):
		return 0, "the host is neither a name nor an address"
	case !ported || text == "" && !connect:
		return 0, ""
	}
	n, err := strconv.ParseUint(text, 10, 16)
	switch {
	case err != nil || connect && n == 0:
		return 0, "the host's port is not a number from 1 to 65535"
	case !connect:
		return 0, ""
	}
	return uint16(n), ""
}

// cutPort cuts off what follows the host's name, or its address in brackets.
func cutPort(host string) (name, port string, ported bool) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || i < strings.LastIndexByte(host, ']') {
		return host, "", false
	}
	return host[:i], host[i+1:], true
}

// isHost reports whether name can be a host in a URI: a name (RFC 3986, 3.2.2),
// or an IPv6 address in brackets. An empty one can.
func isHost(name string) bool {
	if inside, ok := strings.CutPrefix(name, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		addr, err := netip.ParseAddr(inside)
		return ok && err == nil && addr.Is6() && addr.Zone() == ""
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("-._~%!$&'()*+,;=", c) < 0 {
			return false
		}
	}
	return true
}
