package courtesy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A refusal is a request that is not sent, or a connection that is not made,
// because it would lead somewhere a board is not.
type refusal struct{ why string }

func (r *refusal) Error() string { return "refused: " + r.why }

// refuse returns a refusal, in the form that says that trying again is no use.
func refuse(why string) error { return backoff.Permanent(&refusal{why}) }

// reserved are the ranges that are not the public internet, beyond what
// netip.Addr has methods for.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // carriers' NAT
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b:1::/48"),  // a site's own NAT64
	netip.MustParsePrefix("100::/64"),        // discard
	netip.MustParsePrefix("2001::/23"),       // protocol assignments: Teredo, ORCHID, ...
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4: an IPv4 address inside
	netip.MustParsePrefix("3fff::/20"),       // documentation
	netip.MustParsePrefix("5f00::/16"),       // segment routing
	netip.MustParsePrefix("fec0::/10"),       // site-local, retired
	netip.MustParsePrefix("::/96"),           // IPv4-compatible, retired
}

// nat64 is the well-known prefix of NAT64. In a network with only IPv6 every
// IPv4 host has such an address, so the IPv4 address inside decides.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// public reports whether a is an address of the public internet.
func public(a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// onlyPublic is a net.Dialer's ControlContext: it runs for each address that
// is about to be connected, after names were resolved, so no second answer of
// a name server can come between the check and the connection.
func onlyPublic(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return refuse(fmt.Sprintf("%s %s is no address of a host", network, address))
	}
	if at.Port() != 443 {
		return refuse(fmt.Sprintf("port %d: boards are read on 443 only", at.Port()))
	}
	if !public(at.Addr()) {
		return refuse(fmt.Sprintf("the name leads to %s, which is not a public address", at.Addr()))
	}
	return nil
}

// Ceilings of what happens before a request is sent. They are no part of an
// operation's time, which ends the wait for them; they end what nobody waits
// for any more.
const (
	connectCeiling = 30 * time.Second
	tlsCeiling     = 30 * time.Second
)

// dialers make the connections: straight ones to public addresses only, and
// those to a proxy that the user named wherever it is.
type dialers struct {
	straight, toProxy net.Dialer

	mu      sync.Mutex
	proxies map[string]bool // host:port of each that was chosen
}

func newDialers() *dialers {
	return &dialers{
		straight: net.Dialer{Timeout: connectCeiling, ControlContext: onlyPublic},
		toProxy:  net.Dialer{Timeout: connectCeiling},
		proxies:  make(map[string]bool),
	}
}

func (d *dialers) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	proxy := d.proxies[address]
	d.mu.Unlock()
	if proxy {
		return d.toProxy.DialContext(ctx, network, address)
	}
	return d.straight.DialContext(ctx, network, address)
}

// remembering returns choose, with what it chooses noted for dial.
func (d *dialers) remembering(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if choose == nil {
		return nil
	}
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	return func(r *http.Request) (*url.URL, error) {
		proxy, err := choose(r)
		if err != nil || proxy == nil {
			return nil, err
		}
		port := proxy.Port()
		if port == "" {
			port = ports[proxy.Scheme]
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.proxies[net.JoinHostPort(proxy.Hostname(), port)] = true
		return proxy, nil
	}
}
