package lane

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cenkalti/backoff/v5"
)

const (
	maxRatio   = 100     // of what is unpacked to what was sent; JSON and HTML have 5 to 30, gzip at most 1032
	ratioFrom  = 1 << 20 // up to so many bytes any ratio will do
	firstGuess = 1 << 20 // of a Content-Length, that much is believed
)

// read reads an answer's body, unpacked, up to the lane's limit. What it returns beside an error is a beginning.
func (l *Lane) read(response *http.Response) ([]byte, error) {
	sent := &counter{r: response.Body}
	from, limit := io.Reader(sent), l.o.MaxBody
	switch coding := strings.ToLower(response.Header.Get("Content-Encoding")); {
	case response.Request.Method == http.MethodHead || coding == "" || coding == "identity":
	case coding == "gzip" || coding == "x-gzip":
		unpack, err := gzip.NewReader(sent)
		if errors.Is(err, io.EOF) && sent.n == 0 {
			return nil, nil // an empty body, as of a 304
		}
		if err != nil {
			return nil, fmt.Errorf("unpack the answer: %w", err)
		}
		from = &ratio{r: unpack, sent: sent}
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength = -1
	default:
		return nil, backoff.Permanent(fmt.Errorf("the answer is packed with %q, which nobody asked for", coding))
	}
	var body bytes.Buffer
	if n := response.ContentLength; n > 0 && response.Request.Method != http.MethodHead {
		body.Grow(int(min(n, limit, firstGuess)) + bytes.MinRead)
	}
	n, err := body.ReadFrom(io.LimitReader(from, limit+1))
	if n > limit {
		return body.Bytes()[:limit], fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return body.Bytes(), err
}

// counter counts what it lets through.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// ratio reads from r, which unpacks what sent has counted, as long as it does not unpack to too much.
type ratio struct {
	r    io.Reader
	sent *counter
	n    int64
}

func (u *ratio) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	u.n += int64(n)
	if u.n > ratioFrom && u.n/maxRatio > u.sent.n {
		return n, fmt.Errorf("%w: %d bytes unpack to more than %d times as much", ErrTooLarge, u.sent.n, maxRatio)
	}
	return n, err
}
