package proxy

// Of HTTP/2 (RFC 9113) a connection knows where its frames begin and end.
const (
	frameHeaderLen = 9

	frameHeaders      = 0x1
	framePing         = 0x6
	frameGoAway       = 0x7
	frameContinuation = 0x9

	flagAck        = 0x1
	flagEndHeaders = 0x4
)

// frames follows one direction of a HTTP/2 connection.
type frames struct {
	header [frameHeaderLen]byte
	got    int    // bytes of header
	left   uint32 // bytes of the payload to come
	open   bool   // in a header block, which nothing may interrupt
	some   bool   // a frame has ended
	gone   bool   // there was a GOAWAY
	ping   [8]byte
	onPing func(payload [8]byte) // called with the payload of each PING's acknowledgement; may be nil
}

// follow takes all of p.
func (f *frames) follow(p []byte) {
	for len(p) > 0 {
		p = p[f.next(p):]
	}
}

// next takes the bytes of p up to the end of the frame that they belong to,
// or all if that is not in p, and returns how many.
func (f *frames) next(p []byte) (n int) {
	if f.got < frameHeaderLen {
		n = copy(f.header[f.got:], p)
		if f.got += n; f.got < frameHeaderLen {
			return n
		}
		f.left = uint32(f.header[0])<<16 | uint32(f.header[1])<<8 | uint32(f.header[2])
	}
	step := min(int(f.left), len(p)-n)
	if f.header[3] == framePing && f.onPing != nil {
		if at := 8 - int(f.left); at >= 0 {
			copy(f.ping[at:], p[n:n+step])
		}
	}
	n += step
	f.left -= uint32(step)
	if f.left == 0 {
		f.end()
	}
	return n
}

func (f *frames) end() {
	f.got, f.some = 0, true
	switch flags := f.header[4]; f.header[3] {
	case frameHeaders, frameContinuation:
		f.open = flags&flagEndHeaders == 0
	case frameGoAway:
		f.gone = true
	case framePing:
		if f.onPing != nil && flags&flagAck != 0 {
			f.onPing(f.ping)
		}
	}
}

// inHeader reports whether a header block has begun and not ended.
func (f *frames) inHeader() bool {
	return f.open || f.got == frameHeaderLen && f.header[3] == frameHeaders
}

// between reports whether another frame may be put in here.
func (f *frames) between() bool { return f.got == 0 && !f.open && f.some && !f.gone }

// drainPing is the payload of the PING behind the first GOAWAY.
var drainPing = [8]byte{'l', 'a', 'y', 'o', 'v', 'e', 'r', '!'}

// firstGoAway tells the client to open no more streams, and names no last one:
// those that are under way are served. The PING tells when it has read that.
var firstGoAway = append([]byte{
	0, 0, 8, frameGoAway, 0, 0, 0, 0, 0,
	0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0,
	0, 0, 8, framePing, 0, 0, 0, 0, 0,
}, drainPing[:]...)
