package proxy

import (
	"bytes"
	"errors"
	"strings"
)

// A scanner reads along with net/http and refuses what two HTTP/1.1 parsers may
// read in two ways, before net/http has seen the end of it: where one of them
// sees a body, the other could see a second request. It is stricter than
// net/http, which takes folded lines, bare line feeds and a Content-Length
// beside a Transfer-Encoding (RFC 9112, 2.2, 5.2, 6.1), and it knows where each
// message ends for the same reason. It keeps no more than an unfinished line,
// which net/http's limit of a header bounds.
//
//	start -> header -> body(n) -------------------------+-> start
//	             \---> size -> data(n) -> dataEnd -> size  (or free, after Upgrade;
//	                     |                                  preface, before HTTP/2)
//	                     \--> trailer ------------------+
type scanner struct {
	state  scanState
	speaks protocol // what the client can begin with
	n      uint64   // bytes of body or data to come
	line   []byte   // the begin of the line that is not finished
	failed error    // sticky

	m message // whose header is being read, or was last
}

type scanState uint8

const (
	scanStart scanState = iota
	scanHeader
	scanBody
	scanSize
	scanData
	scanDataEnd
	scanTrailer
	scanPreface // behind the first line of the preface of HTTP/2
	scanFree    // another protocol
)

// protocol is what can come next on a connection.
type protocol uint8

const (
	protocolAny protocol = iota // a connection in the clear that has sent nothing
	protocolH1
	protocolH2
)

// message is what matters of a header to where its message ends.
type message struct {
	begun     bool // the request line was read
	old       bool // HTTP/1.0
	length    uint64
	hasLength bool
	chunked   bool
	hasHost   bool
	upgrade   bool
	host      bool   // and it is not empty
	authority string // of a target in absolute form
}

// errMalformed is the error of every request that a scanner refuses. net/http
// answers 400 to it, and closes the connection.
var errMalformed = errors.New("proxy: malformed request")

type malformed string

func (m malformed) Error() string        { return "proxy: malformed request: " + string(m) }
func (m malformed) Is(target error) bool { return target == errMalformed }

// maxChunkLine bounds the line before a chunk, extensions and its end included.
const maxChunkLine = 1 << 10

// maxLength keeps sums of lengths from overflowing.
const maxLength = 1 << 62

// scan returns how much of p net/http may have: all of it, unless the state is
// scanPreface then, or failed is set. The end of a header that is refused is
// never in it.
func (s *scanner) scan(p []byte) (n int) {
	for n < len(p) && s.state < scanPreface && s.failed == nil {
		switch s.state {
		case scanBody, scanData:
			n += s.skip(len(p) - n)
			continue
		case scanStart:
			if p[n] == '\r' || p[n] == '\n' { // net/http decides on empty lines before a request
				n++
				continue
			}
			s.state, s.m = scanHeader, message{}
		}
		end := bytes.IndexByte(p[n:], '\n') + 1
		switch {
		case end == 0:
			s.keep(p[n:])
			end = len(p) - n
		case len(s.line) > 0:
			s.keep(p[n : n+end])
			line := s.line
			s.line = nil
			if s.failed == nil {
				s.failed = s.takeLine(line)
			}
		default:
			s.failed = s.takeLine(p[n : n+end])
		}
		if s.failed == nil {
			n += end
		}
	}
	if s.state == scanFree {
		return len(p)
	}
	return n
}

// keep adds p to the line that is not finished.
//
//go:noinline
func (s *scanner) keep(p []byte) {
	if s.state != scanHeader && s.state != scanTrailer && len(s.line)+len(p) > maxChunkLine {
		s.failed = malformed("the line before a chunk is too long")
		return
	}
	s.line = append(s.line, p...)
}

// skip takes up to n bytes of a body or chunk.
func (s *scanner) skip(n int) int {
	step := min(s.n, uint64(n))
	if s.n -= step; s.n == 0 {
		s.bodyPart()
	}
	return int(step)
}

// bodyPart is called at the end of a body or chunk.
func (s *scanner) bodyPart() {
	if s.state == scanData {
		s.state = scanDataEnd
		return
	}
	s.finish()
}

// finish is called at the end of a message. Behind a request for another
// protocol anything can come; see exchange.oneUpgrade.
func (s *scanner) finish() {
	s.state = scanStart
	if s.m.upgrade {
		s.state = scanFree
	}
}

// takeLine takes a whole line, with its end.
func (s *scanner) takeLine(line []byte) error {
	text := line[:len(line)-1]
	if len(text) == 0 || text[len(text)-1] != '\r' {
		return malformed("a line ends without CR")
	}
	text = text[:len(text)-1]
	if bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, 0) >= 0 {
		return malformed("a line has a CR or NUL in it")
	}
	switch s.state {
	case scanHeader:
		return s.headerLine(text)
	case scanSize:
		return s.sizeLine(text)
	case scanDataEnd:
		if len(text) > 0 {
			return malformed("a chunk is longer than it says")
		}
		s.state = scanSize
	case scanTrailer:
		if len(text) == 0 {
			s.finish()
			return nil
		}
		switch name, _ := field(text); name {
		case fieldBad:
			return errField
		case fieldLength, fieldCoding, fieldHost:
			return malformed("the trailer has what only a header can have")
		}
	}
	return nil
}

func (s *scanner) headerLine(text []byte) error {
	m := &s.m
	switch {
	case !m.begun:
		m.begun = true
		return s.firstLine(text)
	case len(text) == 0:
		return s.headerEnd()
	}
	name, value := field(text)
	switch name {
	case fieldBad:
		return errField
	case fieldLength:
		return m.contentLength(value)
	case fieldCoding:
		if m.chunked || m.old || !folds(value, "chunked") {
			return malformed("Transfer-Encoding is not chunked, once, in HTTP/1.1")
		}
		m.chunked = true
	case fieldHost:
		if m.hasHost {
			return malformed("two Host headers")
		}
		m.hasHost, m.host = true, len(value) > 0
		if m.authority != "" && !strings.EqualFold(m.authority, string(value)) {
			return malformed("the target and the Host header name different hosts")
		}
	case fieldUpgrade:
		m.upgrade = true
	}
	return nil
}

// firstLine finds out which protocol a client speaks.
func (s *scanner) firstLine(text []byte) error {
	preface := string(text) == clientPreface[:prefaceLine-2]
	if s.speaks == protocolH2 && !preface || s.speaks == protocolH1 && preface {
		return malformed("another protocol than was agreed upon")
	}
	if preface {
		s.state = scanPreface
		return nil
	}
	s.speaks = protocolH1
	return s.m.requestLine(text)
}

// clientPreface is what HTTP/2 begins with, prefaceLine of it in its first line.
const (
	clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	prefaceLine   = len("PRI * HTTP/2.0\r\n")
)

// requestLine leaves to net/http what cannot be read in two ways.
func (m *message) requestLine(text []byte) error {
	if bytes.ContainsAny(text, "\t\v\f") {
		return malformed("the request line has white space that is no space")
	}
	m.old = !bytes.HasSuffix(text, []byte(" HTTP/1.1"))
	_, target, _ := bytes.Cut(text, []byte(" "))
	if len(target) == 0 || target[0] == '/' {
		return nil
	}
	if _, rest, absolute := bytes.Cut(target, []byte("://")); absolute {
		if end := bytes.IndexAny(rest, "/?# "); end >= 0 {
			rest = rest[:end]
		}
		m.authority = string(rest)
	}
	return nil
}

func (m *message) contentLength(value []byte) error {
	if m.hasLength {
		return malformed("two Content-Length headers")
	}
	m.hasLength = true
	if len(value) == 0 {
		return malformed("Content-Length is not a number")
	}
	for i := range len(value) {
		digit := value[i] - '0'
		if digit > 9 {
			return malformed("Content-Length is not a number")
		}
		if m.length = 10*m.length + uint64(digit); m.length > maxLength {
			return malformed("Content-Length is too large")
		}
	}
	return nil
}

func (s *scanner) headerEnd() error {
	m := &s.m
	switch {
	case m.chunked && m.hasLength:
		return malformed("both Content-Length and Transfer-Encoding")
	case m.hasHost && !m.host && !m.old:
		return malformed("the Host header is empty")
	}
	m.authority = ""
	switch {
	case m.chunked:
		s.state = scanSize
	case m.length > 0:
		s.state, s.n = scanBody, m.length
	default:
		s.finish()
	}
	return nil
}

// sizeLine takes the line before a chunk.
func (s *scanner) sizeLine(text []byte) error {
	digits := 0
	for digits < len(text) && isHex(text[digits]) {
		digits++
	}
	if digits == 0 || digits > 15 || len(text)+len("\r\n") > maxChunkLine {
		return malformed("a chunk's size cannot be read")
	}
	if len(text) > digits && text[digits] != ';' {
		return malformed("there is something behind a chunk's size")
	}
	s.n = 0
	for _, c := range text[:digits] {
		s.n = s.n<<4 | uint64(hexValue(c))
	}
	s.state = scanData
	if s.n == 0 {
		s.state = scanTrailer
	}
	return nil
}

// fieldName is a header that a scanner knows.
type fieldName uint8

const (
	fieldOther fieldName = iota
	fieldBad
	fieldLength
	fieldCoding
	fieldHost
	fieldUpgrade
)

const errField = malformed("a header line does not begin with a name and a colon")

// field splits a line of a header.
func field(text []byte) (name fieldName, value []byte) {
	colon := bytes.IndexByte(text, ':')
	if colon <= 0 {
		return fieldBad, nil
	}
	for _, c := range text[:colon] {
		if !tokenBytes[c] { // a folded line begins with a space, so it is none either
			return fieldBad, nil
		}
	}
	value = trimmed(text[colon+1:])
	switch text = text[:colon]; {
	case folds(text, "content-length"):
		return fieldLength, value
	case folds(text, "transfer-encoding"):
		return fieldCoding, value
	case folds(text, "host"):
		return fieldHost, value
	case folds(text, "upgrade"):
		return fieldUpgrade, value
	}
	return fieldOther, nil
}

// trimmed is p without the spaces and tabs around it.
func trimmed(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\t') {
		p = p[1:]
	}
	for len(p) > 0 && (p[len(p)-1] == ' ' || p[len(p)-1] == '\t') {
		p = p[:len(p)-1]
	}
	return p
}

// folds reports whether p is lower but for the case. lower has letters and
// dashes only.
func folds(p []byte, lower string) bool {
	if len(p) != len(lower) {
		return false
	}
	for i, c := range p {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// tokenBytes are what a header's name is made of.
var tokenBytes = func() (is [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		is[c] = true
	}
	return is
}()

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
