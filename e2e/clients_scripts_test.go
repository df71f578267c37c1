package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"layover/e2e/actor"
)

// curled is what curl says of a request.
type curled struct {
	version, status string
	mark, reason    string
	seconds         float64
	uploaded        int // bytes
	body            string
}

// curlTo sends a request to an actor.
func (s *server) curlTo(t *testing.T, to, url string, args ...string) curled {
	t.Helper()
	out := filepath.Join(t.TempDir(), "body")
	args = append([]string{"-sk", "--max-time", "60", "-o", out, "-H", "X-To: " + to, "-D", out + ".header",
		"-w", "%{http_code} %{time_total} %{size_upload}"}, args...)
	var c curled
	if _, err := fmt.Sscan(run(t, ".", need(t, "curl"), append(args, url)...), &c.status, &c.seconds, &c.uploaded); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(out)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	c.body = string(body)
	header, err := os.ReadFile(out + ".header")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(header)) {
		if version, _, ok := strings.Cut(strings.TrimPrefix(line, "HTTP/"), " "); ok && strings.HasPrefix(line, "HTTP/") {
			c.version = version // of the last answer; some versions of curl say 1 for 1.0
		}
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); strings.ToLower(name) {
		case "x-actor":
			c.mark = value
		case "layover-reason":
			c.reason = value
		}
	}
	return c
}

func (c curled) wantCold(t *testing.T, to, version, body string) {
	t.Helper()
	if c.status != "200" || c.mark != to || c.version != version || c.body != body {
		t.Errorf("got %+v, want HTTP/%s 200 from %s: %q", c, version, to, body)
	}
	if c.seconds < coldStart.Seconds() {
		t.Errorf("%s answered after %v s: it was not asleep", to, c.seconds)
	}
}

func TestR29_R43_CurlWakesActors(t *testing.T) {
	clear, tls := serveActors(t, ""), serveActors(t, tlsSettings(t))
	data := repeat("curl", 3<<18)
	file := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	upload := []string{"--data-binary", "@" + file}
	// curl would send the body after a second without 100; a minute shows that 100 came.
	expecting := append([]string{"-H", "Expect: 100-continue", "--expect100-timeout", "60"}, upload...)
	sum := actor.Sum(data)
	for _, test := range []struct {
		server            *server
		to, path, version string
		body              string
		args              []string
	}{
		{clear, "h1-get", "/", "1.1", "h1-get is awake\n", nil},
		{clear, "h1-old", "/", "1.0", "h1-old is awake\n", []string{"--http1.0"}},
		{clear, "h2c-get", "/", "2", "h2c-get is awake\n", []string{"--http2-prior-knowledge"}},
		{clear, "h1-upload", "/upload", "1.1", sum, append([]string{"-H", "Expect:"}, upload...)},
		{clear, "h1-expect", "/upload", "1.1", sum, expecting},
		{clear, "h2c-expect", "/upload", "1.1", sum, expecting},
		{clear, "h1-chunked", "/upload", "1.1", sum, append([]string{"-H", "Transfer-Encoding: chunked"}, expecting...)},
		{clear, "h1-h2upload", "/upload", "2", sum, append([]string{"--http2-prior-knowledge"}, upload...)},
		{tls, "h1-get", "/", "2", "h1-get is awake\n", []string{"--http2"}},
		{tls, "h1-alpn", "/", "1.1", "h1-alpn is awake\n", []string{"--http1.1"}},
		{tls, "h2c-upload", "/upload", "2", sum, append([]string{"--http2"}, upload...)},
		{tls, "h1-expect", "/upload", "1.1", sum, append([]string{"--http1.1"}, expecting...)},
	} {
		scheme := "http"
		if test.server == tls {
			scheme = "https"
		}
		got := test.server.curlTo(t, test.to, scheme+"://"+test.server.addr+test.path, test.args...)
		got.wantCold(t, test.to, test.version, test.body)
	}

	// R43: who is refused is never asked for the body.
	got := clear.curlTo(t, "failing-expect", "http://"+clear.addr+"/upload", expecting...)
	if got.status != "502" || got.reason != "start_failed" || got.uploaded != 0 {
		t.Errorf("an upload to an actor that does not start: %+v, want 502 start_failed and nothing uploaded", got)
	}
}

func TestR29_R43_NodeWakesActors(t *testing.T) {
	node := need(t, "node")
	if major, _, _ := strings.Cut(strings.TrimPrefix(run(t, ".", node, "--version"), "v"), "."); !atLeast(major, 18) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("node %s is too old for the test", major)
		}
		t.Skipf("NOT TESTED: node %s has no fetch", major)
	}
	clear, tls := serveActors(t, ""), serveActors(t, tlsSettings(t))
	sum := actor.Sum(repeat("node", 1<<18))
	got := tellings(t, run(t, ".", node, filepath.Join("testdata", "client.mjs"), "http://"+clear.addr, "https://"+tls.addr))
	wantServed(t, got, map[string]told{
		"http get":      {Mark: "h1-node-get", Body: "h1-node-get is awake\n"},
		"http post":     {Mark: "h1-node-post", Body: sum},
		"http expect":   {Mark: "h1-node-expect", Body: sum},
		"http2 get":     {Mark: "h2c-node-get", Body: "h2c-node-get is awake\n"},
		"http2 post":    {Mark: "h1-node-h2post", Body: sum},
		"http2 tls":     {Mark: "h2c-node-tls", Body: sum},
		"fetch get":     {Mark: "h1-node-fetch", Body: "h1-node-fetch is awake\n"},
		"fetch post":    {Mark: "h2c-node-fetch", Body: sum},
		"fetch events":  {Mark: "h1-node-events", Body: "data: 0\n\ndata: 1\n\ndata: 2\n\n"},
		"fetch unknown": {Status: 404},
	})
}

func atLeast(number string, want int) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n >= want
}

func TestR29_PythonWakesActors(t *testing.T) {
	python := need(t, "python3")
	s := serveActors(t, "")
	sum := actor.Sum(repeat("python", 200_000))
	got := tellings(t, run(t, ".", python, filepath.Join("testdata", "client.py"), s.addr))
	wantServed(t, got, map[string]told{
		"client get":        {Mark: "h1-py-get", Body: "h1-py-get is awake\n"},
		"client get again":  {Mark: "h1-py-get", Body: "h1-py-get is awake\n"},
		"client post":       {Mark: "h1-py-post", Body: sum},
		"client post again": {Mark: "h1-py-post", Body: sum},
		"client chunked":    {Mark: "h2c-py-chunked", Body: sum},
		"urllib get":        {Mark: "h2c-py-urllib", Body: "h2c-py-urllib is awake\n"},
		"urllib post":       {Mark: "h1-py-urlpost", Body: sum},
		"urllib unknown":    {Mark: "", Status: 404},
	})
}
