package extproc

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

func TestHostsAndTheirPortsAreReadOrRefused(t *testing.T) {
	for _, test := range []struct {
		host    string
		connect bool // it is good for a CONNECT, which asks for port
		port    uint16
		other   bool // it is good for anything else
	}{
		{"a.example", true, 0, true},
		{"a.example:443", true, 443, true},
		{"A_b-1.example.:65535", true, 65535, true},
		{"a.example:0443", true, 443, true},
		{"[2001:db8::1]:9000", true, 9000, true},
		{"[::1]", true, 0, true},
		{"10.0.0.1:1", true, 1, true},
		{"xn--bcher-kva.example:80", true, 80, true},
		{"", false, 0, true},
		{"a.example:", false, 0, true},
		{"a.example:0", false, 0, true},
		{"a.example:65536", false, 0, false},
		{"a.example:99999", false, 0, false},
		{"a.example:99999999999999999999", false, 0, false},
		{"a.example:-1", false, 0, false},
		{"a.example:+1", false, 0, false},
		{"a.example:80 ", false, 0, false},
		{"a.example: 80", false, 0, false},
		{"a.example:0x50", false, 0, false},
		{"a.example:http", false, 0, false},
		{"a.example:80:80", false, 0, false},
		{":80", false, 0, false},
		{":", false, 0, false},
		{"user@a.example:80", false, 0, false},
		{"user:secret@a.example:80", false, 0, false},
		{"a example:80", false, 0, false},
		{" a.example:80", false, 0, false},
		{"a.example/path:80", false, 0, false},
		{"http://a.example:80", false, 0, false},
		{"a.example?q:80", false, 0, false},
		{"a.example#f:80", false, 0, false},
		{`a.example\:80`, false, 0, false},
		{"a.example\x00:80", false, 0, false},
		{"a.example\r\n:80", false, 0, false},
		{"bücher.example:80", false, 0, false},
		{"::1", false, 0, false},
		{"::1:80", false, 0, false},
		{"[::1", false, 0, false},
		{"::1]:80", false, 0, false},
		{"[::1]80", false, 0, false},
		{"[::1]]:80", false, 0, false},
		{"[fe80::1%25eth0]:80", false, 0, false},
		{"[10.0.0.1]:80", false, 0, false},
		{"[]:80", false, 0, false},
		{"[v1.x]:80", false, 0, false},
	} {
		port, wrong := readHost(test.host, true)
		if port != test.port || (wrong == "") != test.connect {
			t.Errorf("CONNECT %q: port %d, %q, want %d, good: %v", test.host, port, wrong, test.port, test.connect)
		}
		port, wrong = readHost(test.host, false)
		if port != 0 || (wrong == "") != test.other {
			t.Errorf("GET with host %q: port %d, %q, want 0, good: %v", test.host, port, wrong, test.other)
		}
	}
}

// FuzzReadHost holds what passes to what other readers of an authority make of
// it: none may see another host, another port, or a user.
func FuzzReadHost(f *testing.F) {
	for _, host := range []string{"a.example:443", "[::1]:80", "user@a:1", "a:", ":", "a:99999", "[::1]]:80", "a%zz:1", "a b:1", "a\x00:1"} {
		f.Add(host, true)
		f.Add(host, false)
	}
	f.Fuzz(func(t *testing.T, host string, connect bool) {
		port, wrong := readHost(host, connect)
		if wrong != "" {
			if port != 0 {
				t.Errorf("%q is refused, with port %d", host, port)
			}
			return
		}
		if strings.ContainsAny(host, "@/?#\\ \t\r\n\x00") {
			t.Errorf("%q passes", host)
		}
		if !connect {
			return
		}
		if port == 0 {
			if name, _, ok := cutPort(host); ok || name == "" {
				t.Errorf("%q passes without a port", host)
			}
			return
		}
		name, text, err := net.SplitHostPort(host)
		n, numErr := strconv.Atoi(text)
		if err != nil || numErr != nil || n != int(port) || name == "" {
			t.Errorf("%q has port %d here, %q and %q elsewhere (%v)", host, port, name, text, err)
		}
		if u, err := url.Parse("//" + host); err == nil && (u.User != nil || u.Port() != text) {
			t.Errorf("%q is %+v elsewhere", host, u)
		}
		if _, err := netip.ParseAddr(name); err != nil && strings.Contains(name, ":") {
			t.Errorf("%q passes with the host %q", host, name)
		}
	})
}
