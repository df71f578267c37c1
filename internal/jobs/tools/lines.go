package tools

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines is the input of a client without the lines that are no messages. The
// SDK ends a connection at the first of these; here they are answered with an
// error, and the client goes on.
type lines struct {
	io.Closer
	from *bufio.Reader
	to   *lineWriter
	log  *slog.Logger
	rest []byte // of the line that is being read
}

func newLines(in io.ReadCloser, to *lineWriter, log *slog.Logger) *lines {
	return &lines{Closer: in, from: bufio.NewReaderSize(in, 64<<10), to: to, log: log}
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if err != nil && len(line) == 0 {
			return 0, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		code, wrong := check(line)
		if wrong == nil {
			l.rest = append(line, '\n')
			break
		}
		l.log.Warn("a line of the client is no message", "error", wrong)
		if err := l.to.refuse(code, wrong); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads a line without its end. Of one that is too long it returns the
// begin, one byte more than is allowed.
func (l *lines) next() (line []byte, err error) {
	for {
		part, err := l.from.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxMessage+1-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}

// check says what is wrong with a line, if it is neither a message nor a batch
// of some.
func check(line []byte) (code int, wrong error) {
	switch {
	case len(line) > maxMessage:
		return jsonrpc.CodeInvalidRequest, fmt.Errorf("the line has more than %d bytes", maxMessage)
	case !json.Valid(line):
		return jsonrpc.CodeParseError, errors.New("the line is not JSON")
	}
	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) != nil {
		batch = []json.RawMessage{line}
	} else if len(batch) == 0 {
		return jsonrpc.CodeInvalidRequest, errors.New("the batch is empty")
	}
	seen := make(map[jsonrpc.ID]bool)
	for _, raw := range batch {
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			return jsonrpc.CodeInvalidRequest, err
		}
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
			if seen[r.ID] {
				return jsonrpc.CodeInvalidRequest, fmt.Errorf("the batch has the id %v twice", r.ID.Raw())
			}
			seen[r.ID] = true
		}
	}
	return 0, nil
}

// lineWriter writes whole lines, one at a time.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer. Each call is a line.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// Close implements io.Closer. It leaves open what it writes to.
func (w *lineWriter) Close() error { return nil }

// refuse answers what is no message, and so has no id.
func (w *lineWriter) refuse(code int, wrong error) error {
	line, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": clean(wrong.Error(), maxName)},
	})
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
