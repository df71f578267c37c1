package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"layover/parking"
)

// warmPath compares the throughput of the proxy in front of an awake actor
// with a bare httputil.ReverseProxy with the same Transport settings, and with
// one that was also given a pool of copy buffers, as ours has.
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
	bare, err := reverseProxy(actor.URL, nil)
	if err != nil {
		return err
	}
	defer bare.Close()
	pooled, err := reverseProxy(actor.URL, &buffers)
	if err != nil {
		return err
	}
	defer pooled.Close()
	for _, count := range []int{1, 16} {
		arms := map[string][]*client{}
		for range count {
			for _, base := range []string{g.url, bare.URL, pooled.URL} {
				arms[base] = append(arms[base], newClient(base, awakeHost))
			}
		}
		n := requests * 4 / (3 + count)
		var toBare, toPooled ratios
		for i := range pairs + 1 {
			took := make(map[string]float64)
			for _, base := range []string{g.url, bare.URL, pooled.URL} {
				d, err := together(arms[base], n)
				if err != nil {
					return err
				}
				took[base] = float64(d)
			}
			if i > 0 { // the first round warms up
				toBare = append(toBare, took[bare.URL]/took[g.url])
				toPooled = append(toPooled, took[pooled.URL]/took[g.url])
			}
		}
		r.ratio(fmt.Sprintf("warm path: throughput, clients: %d, to a bare ReverseProxy", count), toBare, atLeast, 0.95)
		r.ratio(fmt.Sprintf("warm path: throughput, clients: %d, to one with a buffer pool", count), toPooled, atLeast, 0)
	}
	return nil
}

func reverseProxy(actor string, pool httputil.BufferPool) (*httptest.Server, error) {
	target, err := url.Parse(actor)
	if err != nil {
		return nil, err
	}
	return httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(target)
			pr.SetXForwarded()
		},
		Transport: &http.Transport{
			DisableCompression: true, MaxIdleConnsPerHost: 128, IdleConnTimeout: 4 * time.Second,
			ExpectContinueTimeout: 24 * time.Hour,
		},
		BufferPool: pool,
	}), nil
}

var buffers bufferPool

type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return buf[:]
	}
	return make([]byte, 32<<10)
}

func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[32 << 10]byte)(buf)) }
