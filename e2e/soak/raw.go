package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"layover/e2e/actor"
)

// dialRaw opens a connection for HTTP/1.1 by hand, which ends with ctx.
func (h *house) dialRaw(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	if h.tlsLine == "" {
		return conn, nil
	}
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// text is a request for the shot, and the body of the answer to it.
func (h *house) text(s *shot) (request, want string) {
	var b strings.Builder
	method, path, body := "GET", "/", ""
	want = s.to + " is awake\n"
	switch h.chance(4) {
	case 0:
		method, path, body = "POST", "/upload", string(payload[:h.chance(3000)])
		want = actor.Sum([]byte(body))
	case 1:
		path, want = "/events?n=2&ms=1", "data: 0\n\ndata: 1\n\n"
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: x\r\n", method, path)
	if method == "POST" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	s.header().Write(&b)
	b.WriteString("\r\n" + body)
	return b.String(), want
}

// pipelined sends up to four requests to the same actor at once over one
// connection. Each has an ending of its own; the first one's is returned, and
// with it go the client and the time that it asks for.
func pipelined(ctx context.Context, h *house, s *shot) ending {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shots := []*shot{s}
	for range 1 + h.chance(3) {
		next := h.newShot(s.kind, s.to)
		next.band = s.band
		shots = append(shots, next)
	}
	var all strings.Builder
	wants := make([]string, len(shots))
	for i, sh := range shots {
		var text string
		text, wants[i] = h.text(sh)
		all.WriteString(text)
	}
	conn, err := h.dialRaw(ctx)
	var answers *bufio.Reader
	if err == nil {
		defer conn.Close()
		answers = bufio.NewReader(conn)
		io.WriteString(conn, all.String()) // it may be refused meanwhile
	}
	endings := make([]ending, len(shots))
	over := false // no more answers come
	for i, sh := range shots {
		sh.began = time.Now()
		if i == 0 {
			sh.began = s.began
		}
		switch {
		case over: // layover reads none behind one that ends the connection
			endings[i] = ending{outcome: left, mayMiss: true}
		case err != nil && ctx.Err() != nil:
			endings[i], over = ending{outcome: left, mayMiss: true}, true
		case err != nil:
			endings[i], over = sh.unanswered(h, err), true
		default:
			endings[i], over = h.nextAnswer(ctx, answers, sh, wants[i])
		}
	}
	for i, sh := range shots[1:] {
		h.enter(sh, endings[i+1], h.books)
	}
	return endings[0]
}

// nextAnswer reads the answer to the shot, and says whether it is the last one.
func (h *house) nextAnswer(ctx context.Context, answers *bufio.Reader, s *shot, want string) (e ending, over bool) {
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		if ctx.Err() != nil {
			return ending{outcome: left, mayMiss: true}, true
		}
		return s.unanswered(h, err), true
	}
	took := time.Since(s.began)
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	e = s.judge(h, resp, string(got), err, want, ctx)
	e.took = took
	return e, err != nil || resp.Close
}

// halfClosed sends a request and then says that no more comes. To layover, as
// to net/http, that is a client that left: it may or may not get its answer.
func halfClosed(ctx context.Context, h *house, s *shot) ending {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := h.dialRaw(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ending{outcome: left, mayMiss: true}
		}
		return s.unanswered(h, err)
	}
	defer conn.Close()
	text, want := h.text(s)
	io.WriteString(conn, text) // it may be refused meanwhile
	conn.(*net.TCPConn).CloseWrite()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		_, excused := h.excuse(s, err, false)
		return ending{outcome: left, mayMiss: excused || ctx.Err() != nil}
	}
	took := time.Since(s.began)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Layover-Reason") == "client_gone" {
		return ending{outcome: left, took: took}
	}
	e := s.judge(h, resp, string(got), nil, want, ctx)
	e.took = took
	return e
}
