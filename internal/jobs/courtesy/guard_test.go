package courtesy

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/net/dns/dnsmessage"

	"layover/internal/jobs/board"
)

func TestOnlyPublicAddressesAreConnected(t *testing.T) {
	for _, tt := range []struct {
		address string
		want    bool
	}{
		{"93.184.215.14", true},
		{"1.1.1.1", true},
		{"172.15.255.255", true},
		{"172.32.0.0", true},
		{"100.63.255.255", true},
		{"100.128.0.0", true},
		{"2606:4700::1111", true},
		{"2a00:1450:4001::1", true},
		{"::ffff:1.1.1.1", true},   // IPv4 in another spelling
		{"64:ff9b::101:101", true}, // 1.1.1.1 in a network with only IPv6

		{"0.0.0.0", false},
		{"0.1.2.3", false},
		{"127.0.0.1", false},
		{"127.255.255.254", false},
		{"10.0.0.1", false},
		{"172.16.0.1", false},
		{"172.31.255.255", false},
		{"192.168.1.1", false},
		{"169.254.169.254", false}, // where clouds keep credentials
		{"100.64.0.1", false},
		{"100.127.255.255", false},
		{"192.0.0.1", false},
		{"192.0.2.1", false},
		{"198.18.0.1", false},
		{"198.51.100.1", false},
		{"203.0.113.1", false},
		{"224.0.0.1", false},
		{"239.255.255.255", false},
		{"240.0.0.1", false},
		{"255.255.255.255", false},
		{"::", false},
		{"::1", false},
		{"::7f00:1", false},
		{"::ffff:127.0.0.1", false},
		{"::ffff:10.0.0.1", false},
		{"64:ff9b::7f00:1", false}, // 127.0.0.1
		{"64:ff9b::a00:1", false},  // 10.0.0.1
		{"64:ff9b:1::1", false},
		{"fe80::1", false},
		{"fe80::1%eth0", false},
		{"2606:4700::1111%eth0", false},
		{"fc00::1", false},
		{"fd12:3456::1", false},
		{"fec0::1", false},
		{"ff02::1", false},
		{"100::1", false},
		{"2001::1", false},
		{"2001:db8::1", false},
		{"2002:7f00:1::", false}, // 6to4 of 127.0.0.1
		{"3fff::1", false},
	} {
		if got := public(netip.MustParseAddr(tt.address)); got != tt.want {
			t.Errorf("public(%s) = %v, want %v", tt.address, got, tt.want)
		}
		at := netip.AddrPortFrom(netip.MustParseAddr(tt.address), 443).String()
		if err := onlyPublic(context.Background(), "tcp", at, nil); (err == nil) != tt.want {
			t.Errorf("onlyPublic(%s) = %v, want nil: %v", at, err, tt.want)
		}
	}
	for _, at := range []string{"1.1.1.1:80", "1.1.1.1:8443", "1.1.1.1:22", "1.1.1.1", "/run/socket", ""} {
		if onlyPublic(context.Background(), "tcp", at, nil) == nil {
			t.Errorf("onlyPublic(%q) = nil, want a refusal", at)
		}
	}
}

// nameServer answers one lookup after the other with the next of its answers,
// and the last one from then on.
type nameServer struct {
	mu      sync.Mutex
	answers [][]string
	lookups int // of IPv4 addresses
}

func (n *nameServer) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go n.serve(there) // ends with the resolver's connection
	return here, nil
}

func (n *nameServer) serve(c net.Conn) {
	defer c.Close()
	for {
		var size uint16
		if binary.Read(c, binary.BigEndian, &size) != nil {
			return
		}
		question := make([]byte, size)
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		answer := n.answer(question)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func (n *nameServer) answer(question []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil
	}
	m.Response, m.Authoritative = true, true
	m.Additionals = nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		for _, a := range n.next() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
			})
		}
	}
	packed, _ := m.Pack()
	return packed
}

func (n *nameServer) next() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	answer := n.answers[min(n.lookups, len(n.answers)-1)]
	n.lookups++
	return answer
}

// A name server that answers with a public address first and with one of this
// machine or its network afterwards cannot get a connection to the latter. The
// connections stop right behind the check, so that none leaves this machine.
func TestJ48_ANameThatMovesToAPrivateAddressIsNotFollowed(t *testing.T) {
	for name, answers := range map[string][][]string{
		"private from the start":   {{"127.0.0.1"}},
		"public, then private":     {{"93.184.215.14"}, {"127.0.0.1"}},
		"both at once":             {{"93.184.215.14", "10.0.0.1"}},
		"the private one in front": {{"169.254.169.254", "93.184.215.14"}},
	} {
		t.Run(name, func(t *testing.T) {
			names := &nameServer{answers: answers}
			d := newDialers()
			d.straight.Resolver = &net.Resolver{PreferGo: true, Dial: names.dial}
			var mu sync.Mutex
			var connected, refused []string
			d.straight.ControlContext = func(ctx context.Context, network, address string, raw syscall.RawConn) error {
				mu.Lock()
				defer mu.Unlock()
				if err := onlyPublic(ctx, network, address, raw); err != nil {
					refused = append(refused, address)
					return err
				}
				connected = append(connected, address)
				return backoff.Permanent(errors.New("this is as far as the test goes"))
			}
			c, err := newWith(Options{}, d)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			b := acme()
			b.Every, b.Hosts = time.Nanosecond, []string{"acme.example"}
			for i := range 3 {
				_, err := get(c, b, time.Minute, fmt.Sprint(jobsURL, "?", i))
				wantTrouble(t, err, board.Unavailable)
			}
			for _, address := range connected {
				if address != "93.184.215.14:443" {
					t.Errorf("it would have connected to %s", address)
				}
			}
			if len(refused) == 0 {
				t.Error("no address was refused: the name server was not asked")
			}
		})
	}
}

func TestJ48_ARefusalIsSaidAndNotTriedAgain(t *testing.T) {
	names := &nameServer{answers: [][]string{{"127.0.0.1"}}}
	d := newDialers()
	d.straight.Resolver = &net.Resolver{PreferGo: true, Dial: names.dial}
	c, err := newWith(Options{}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = get(c, acme(), 5*time.Second, jobsURL)
	trouble := wantTrouble(t, err, board.Unavailable)
	if !strings.Contains(trouble.Detail, "127.0.0.1, which is not a public address") {
		t.Errorf("detail %q, want it to name the address and why it is refused", trouble.Detail)
	}
	if names.lookups != 1 {
		t.Errorf("the name was looked up %d times, want once", names.lookups)
	}
}

// A machine that is offline must not be told that companies do not exist.
func TestJ27_AHostThatDoesNotExistIsACompanyThatDoesNotUnlessItIsTheBoards(t *testing.T) {
	names := &nameServer{answers: [][]string{{}}}
	d := newDialers()
	d.straight.Resolver = &net.Resolver{PreferGo: true, Dial: names.dial}
	c, err := newWith(Options{}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for url, want := range map[string]board.Verdict{jobsURL: board.Unavailable, "https://one.acme.example/jobs": board.UnknownBoard} {
		_, err := get(c, acme(), 5*time.Second, url)
		if got := wantTrouble(t, err, want); !strings.Contains(got.Detail, "this machine may be offline") || strings.Contains(got.Detail, "company") != (want == board.UnknownBoard) {
			t.Errorf("%s: %q does not say what it may be", url, got.Detail)
		}
	}
}

func TestEachStarOfAPatternIsOneLabel(t *testing.T) {
	for host, want := range map[string]bool{
		"a.wd1.jobs.example": true, "a-b.wd103.jobs.example": true,
		"jobs.example": false, "wd1.jobs.example": false, "x.a.wd1.jobs.example": false, "a..jobs.example": false,
		".wd1.jobs.example": false, "a.wd1.jobs.example.evil": false, "a.wd1.evil-jobs.example": false, "a_b.wd1.jobs.example": false,
		"*.*.jobs.example": false,
	} {
		if got := matches("*.*.jobs.example", host); got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}

func TestOnlyABoardsOwnHostsAreAsked(t *testing.T) {
	b := acme()
	for _, tt := range []struct {
		url  string
		host string // empty: refused
	}{
		{"https://acme.example/jobs", "acme.example"},
		{"https://acme.example:443/jobs", "acme.example"},
		{"https://one.acme.example/jobs?x=1", "one.acme.example"},

		{"http://acme.example/jobs", ""},
		{"ftp://acme.example/jobs", ""},
		{"//acme.example/jobs", ""},
		{"/jobs", ""},
		{"", ""},
		{"https:///jobs", ""},
		{"https:acme.example", ""},
		{"https://acme.example:8443/jobs", ""},
		{"https://acme.example:80/jobs", ""},
		{"https://user@acme.example/jobs", ""},
		{"https://acme.example@evil.example/", ""},
		{"https://evil.example/acme.example", ""},
		{"https://acme.example.evil.example/", ""},
		{"https://evilacme.example/", ""},
		{"https://two.one.acme.example/", ""},
		{"https://.acme.example/", ""},
		{"https://-x.acme.example/", ""},
		{"https://x_y.acme.example/", ""},
		{"https://ACME.example/", ""},
		{"https://acme.example./", ""},
		{"https://é.acme.example/", ""},
		{"https://" + strings.Repeat("x", 64) + ".acme.example/", ""},
		{"https://127.0.0.1/", ""},
		{"https://[::1]/", ""},
		{"https://acme.example\\@evil.example/", ""},
		{"https://acme.example%2eevil.example/", ""},
		{"https://acme.example/\x7f", ""},
		{"https://acme.example/" + strings.Repeat("x", longestURL), ""},
	} {
		host, err := checked(b, board.Request{URL: tt.url})
		if host != tt.host || (err == nil) != (tt.host != "") {
			t.Errorf("checked(%.60q) = %q, %v; want %q", tt.url, host, err, tt.host)
		}
	}
}

func TestWhatIsRefusedIsNotSent(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		_, err := get(c, acme(), time.Minute, "https://evil.example/?key=secret")
		trouble := wantTrouble(t, err, board.Unavailable)
		if !strings.Contains(trouble.Detail, "evil.example") || strings.Contains(trouble.Detail, "secret") {
			t.Errorf("detail %q, want the host and not the query", trouble.Detail)
		}
		p.wantAts()
	}))
}

func TestRedirectsDoNotLeadAway(t *testing.T) {
	for _, to := range []string{
		"https://evil.example/jobs",
		"https://other.acme.example/jobs",
		"https://acme.example:8443/jobs",
		"http://acme.example/jobs",
		"//evil.example/jobs",
		"https://acme.example@evil.example/",
	} {
		t.Run(to, func(t *testing.T) {
			synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) { status(w, 302, "Location", to) }, func(t *testing.T, p *play, c *Courtesy) {
				_, err := get(c, acme(), time.Minute, jobsURL)
				wantTrouble(t, err, board.Unavailable)
				p.wantAts(0)
			}))
		})
	}
}

func TestARedirectOnTheSameHostIsFollowed(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jobs" {
			status(w, 301, "Location", "/v2/jobs")
			return
		}
		w.Write([]byte("two"))
	}, func(t *testing.T, p *play, c *Courtesy) {
		if a := mustGet(t, c, acme(), jobsURL); string(a.Body) != "two" {
			t.Errorf("the answer is %q, want what the redirect leads to", a.Body)
		}
		if last := p.last(); last.path != "/v2/jobs" || last.header.Get("User-Agent") != "layover-jobs/dev" {
			t.Errorf("the redirect led to %s as %q", last.path, last.header.Get("User-Agent"))
		}
	}))
}

// The guard stands behind everything that sends, whatever that lets through.
func TestTheGuardSeesWhatIsReallySent(t *testing.T) {
	sent := 0
	g := &guard{next: roundTrip(func(*http.Request) (*http.Response, error) {
		sent++
		return httptest.NewRecorder().Result(), nil
	})}
	g.allow([]string{"acme.example"})
	for _, tt := range []struct {
		url, host string
		want      bool
	}{
		{jobsURL, "", true},
		{jobsURL, "acme.example", true},
		{jobsURL, "evil.example", false},
		{"https://evil.example/", "", false},
		{"http://acme.example/", "", false},
	} {
		sent = 0
		r := httptest.NewRequest("GET", tt.url, nil)
		r.Host = tt.host
		if _, err := g.RoundTrip(r); (err == nil) != tt.want || (sent == 1) != tt.want {
			t.Errorf("RoundTrip(%s, Host %q): %v, sent %d times; want it sent: %v", tt.url, tt.host, err, sent, tt.want)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPackedAnswersAreUnpackedAndKept(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Errorf("Accept-Encoding %q, want gzip in it", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, `{"jobs":[]}`)
		z.Close()
	}, func(t *testing.T, p *play, c *Courtesy) {
		for range 2 {
			if a := mustGet(t, c, acme(), jobsURL); string(a.Body) != `{"jobs":[]}` || a.Header.Get("Content-Encoding") != "" {
				t.Errorf("the answer is %q with %v", a.Body, a.Header)
			}
		}
		p.wantAts(0)
	}))
}

func TestABombIsNotUnpacked(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		zeros := make([]byte, 1<<20)
		for range 3 {
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
		z.Close()
	}, func(t *testing.T, p *play, c *Courtesy) {
		b := acme()
		b.MaxBody = 1 << 20
		_, err := get(c, b, time.Minute, jobsURL)
		wantTrouble(t, err, board.Malformed)
		p.wantAts(0)
	}))
}

func TestTLSIs12OrNewer(t *testing.T) {
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(body("one")))
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		defer server.Close()
		transport := newTransport(Options{}, newDialers())
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		}
		r, _ := http.NewRequest("GET", "https://example.com/", nil)
		resp, err := transport.RoundTrip(r)
		if (err == nil) != want {
			t.Errorf("%s: %v, want success: %v", tls.VersionName(version), err, want)
		}
		if err == nil {
			resp.Body.Close()
		}
		transport.CloseIdleConnections()
	}
}

// A proxy that the user named may be anywhere; the board's name is its affair.
func TestAProxyIsAskedWhereverItIs(t *testing.T) {
	asked := make(chan string, 10) // the lane may try again
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	at, _ := url.Parse(proxy.URL)
	c, err := New(Options{Proxy: http.ProxyURL(at)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err = get(c, acme(), 200*time.Millisecond, jobsURL); err == nil {
		t.Error("a proxy that refuses led to an answer")
	}
	if got := <-asked; got != "CONNECT acme.example:443" {
		t.Errorf("the proxy was asked to %s, want CONNECT acme.example:443", got)
	}
}

func TestLocalIsAnAddressOfThisMachine(t *testing.T) {
	for _, address := range []string{"127.0.0.1:8080", "[::1]:8080", "127.1.2.3:1"} {
		if _, err := Local(address); err != nil {
			t.Errorf("Local(%q): %v", address, err)
		}
	}
	for _, address := range []string{"", "127.0.0.1", "localhost:8080", "10.0.0.1:80", "0.0.0.0:80", ":80", "1.1.1.1:443"} {
		if _, err := Local(address); err == nil {
			t.Errorf("Local(%q) takes it, want an error", address)
		}
	}
}

// L7, on real connections: the server sees within 100 ms that nobody wants its
// answer any more. A busy machine only adds to that, so the best of a few counts.
func TestL7_ACancelReachesTheWire(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan time.Time)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("["))
		w.(http.Flusher).Flush()
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- time.Now()
	}))
	defer server.Close()
	dial, err := Local(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := acme()
	b.Every = time.Nanosecond
	best := time.Hour
	for tries := 0; best > 100*time.Millisecond && tries < 5; tries++ {
		ctx, cancel := within(time.Minute)
		failed := make(chan error, 1)
		go func() {
			_, err := c.Fetch(b)(ctx, board.Request{URL: jobsURL})
			failed <- err
		}()
		<-arrived
		cancelled := time.Now()
		cancel()
		best = min(best, (<-gone).Sub(cancelled))
		wantTrouble(t, <-failed, board.Cancelled)
	}
	if best > 100*time.Millisecond {
		t.Errorf("the server saw it after %v, want within 100ms", best)
	}
}

func TestHostsAreBoundedAndTheirPausesOutliveThem(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "first.acme.example" {
			status(w, 429, "Retry-After", "7200")
			return
		}
		w.Write([]byte("one"))
	}, func(t *testing.T, p *play, c *Courtesy) {
		get(c, acme(), time.Minute, "https://first.acme.example/")
		for i := range maxHosts + 10 {
			during(time.Millisecond)
			mustGet(t, c, acme(), fmt.Sprintf("https://h%d.acme.example/", i))
		}
		hosts := c.Stats().Hosts
		if len(hosts) != maxHosts {
			t.Errorf("%d hosts have a lane, want %d", len(hosts), maxHosts)
		}
		var names []string
		for _, h := range hosts {
			names = append(names, h.Host)
		}
		if slices.Contains(names, "first.acme.example") || !slices.IsSorted(names) {
			t.Errorf("hosts %v, want them sorted and the first gone", names)
		}
		n := len(p.ats())
		_, err := get(c, acme(), time.Minute, "https://first.acme.example/")
		wantTrouble(t, err, board.RateLimited)
		if len(p.ats()) != n {
			t.Error("the first host was asked in its pause")
		}
	}))
}

func TestMoreHostsAtOnceThanThereIsRoomForAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(&http.Client{Transport: &guard{}})
		var dones []func()
		for i := range maxHosts {
			_, done, err := l.use(acme(), fmt.Sprintf("h%d.acme.example", i))
			if err != nil {
				t.Fatal(err)
			}
			dones = append(dones, done)
		}
		if _, _, err := l.use(acme(), "more.acme.example"); err == nil {
			t.Error("a lane too many, want an error")
		}
		dones[7]()
		if _, _, err := l.use(acme(), "more.acme.example"); err != nil {
			t.Errorf("with one out of use: %v", err)
		}
		if _, ok := l.byHost["h7.acme.example"]; ok {
			t.Error("the one out of use is still there")
		}
	})
}
