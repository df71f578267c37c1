package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"time"

	"layover/parking"
)

// warmPath compares the throughput of the proxy in front of an awake actor
// with a bare httputil.ReverseProxy with the same Transport settings.
func warmPath(r *report) error {
	const (
		pairs    = 21
		requests = 400
	)
	actor := hello()
	defer actor.Close()
	g, err := newRig(actor.Listener.Addr().String(), parking.NewLot(1024))
	if err != nil {
		return err
	}
	defer g.close()
	target, err := url.Parse(actor.URL)
	if err != nil {
		return err
	}
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(target)
			pr.SetXForwarded()
		},
		Transport: &http.Transport{
			DisableCompression: true, MaxIdleConnsPerHost: 128, IdleConnTimeout: 4 * time.Second,
			ExpectContinueTimeout: 24 * time.Hour,
		},
	})
	defer bare.Close()
	for _, level := range []struct {
		name    string
		clients int
	}{{"warm path: throughput, 1 client, against a bare ReverseProxy", 1}, {"warm path: throughput, 16 clients, against a bare ReverseProxy", 16}} {
		var ours, theirs []*client
		for range level.clients {
			ours = append(ours, newClient(g.url, awakeHost))
			theirs = append(theirs, newClient(bare.URL, awakeHost))
		}
		n := requests * 4 / (3 + level.clients)
		var ratio ratios
		for i := range pairs + 1 {
			a, err := together(ours, n)
			if err != nil {
				return err
			}
			b, err := together(theirs, n)
			if err != nil {
				return err
			}
			if i > 0 { // the first pair warms up
				ratio = append(ratio, float64(b)/float64(a))
			}
		}
		r.ratio(level.name, ratio, atLeast, 0.95)
	}
	return nil
}
