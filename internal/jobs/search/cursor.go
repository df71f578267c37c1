package search

import (
	"container/list"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// Store keeps what cursors stand for. It may forget at any time; a cursor that
// was forgotten is refused. It must be safe for concurrent use and must not
// change, or keep a share in, the values.
type Store interface {
	Put(key string, value []byte, ttl time.Duration)
	Get(key string) (value []byte, ok bool)
}

// position is where a source stands between two answers.
type position struct {
	Token   string   // of the first page that is not fully handled
	Index   int      // of that page
	Counted int      // pages that are in the report
	First   []digest // the ids of its first page, as far as remembered
	Tries   int      // answers in a row that could not read the next page
	Done    bool     // nothing is left of it
	Report
}

// bookmark is what a cursor stands for.
type bookmark struct {
	Query   Query
	Since   time.Time
	Sources []string // names, to see that the boards are still the same
	At      []position
	Given   []byte
}

const (
	prefix  = "j1."
	idBytes = 12
	// Together with the id it makes 28 characters: short enough to be repeated
	// by whoever reads it, long enough that a slip of one never names another.
	macBytes = 9
	macKey   = "cursor-key"
)

// save keeps b and returns the cursor for it.
func (e *Engine) save(b bookmark) string {
	value, err := json.Marshal(b)
	if err != nil {
		panic("search: a bookmark that cannot be written: " + err.Error())
	}
	var id [idBytes]byte
	rand.Read(id[:])
	e.o.Store.Put(macKey, e.key, cursorTTL) // lives as long as the youngest cursor
	cursor := base64.RawURLEncoding.EncodeToString(seal(e.key, id[:]))
	e.o.Store.Put(prefix+cursor, value, cursorTTL)
	return prefix + cursor
}

// cursorKey is what cursors are sealed with. It is kept where they are, so that
// they outlive a restart together.
func cursorKey(store Store) []byte {
	key, ok := store.Get(macKey)
	if !ok || len(key) != sha256.Size {
		key = make([]byte, sha256.Size)
		rand.Read(key)
	}
	return key
}

// seal is id and its code.
func seal(key, id []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(prefix))
	mac.Write(id)
	return append(slices.Clone(id), mac.Sum(nil)[:macBytes]...)
}

// open returns what the cursor stands for.
func (e *Engine) open(cursor string) (bookmark, error) {
	var b bookmark
	refuse := func(want string) (bookmark, error) { return bookmark{}, &Invalid{"cursor", cursor, want} }
	code, ok := strings.CutPrefix(cursor, prefix)
	if !ok {
		return refuse("not a cursor of this server: repeat the one of the last answer exactly, or begin again without one")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil || len(raw) != idBytes+macBytes || !hmac.Equal(raw, seal(e.key, raw[:idBytes])) {
		return refuse("altered, or of another server: repeat the one of the last answer exactly, or begin again without one")
	}
	value, ok := e.o.Store.Get(cursor)
	if !ok || json.Unmarshal(value, &b) != nil {
		return refuse("expired: cursors are kept for a day; begin again without one")
	}
	return b, nil
}

// encodeGiven writes the log of what was given; the oldest are left out if it
// is too long: their pages are long past.
func encodeGiven(log []given) []byte {
	log = log[max(0, len(log)-maxHandedID):]
	var out []byte
	for _, g := range log {
		out = append(out, g.source, byte(len(g.keys)))
		out = binary.BigEndian.AppendUint64(out, uint64(g.id))
		for _, k := range g.keys {
			out = binary.BigEndian.AppendUint64(out, uint64(k))
		}
	}
	return out
}

func decodeGiven(in []byte) (log []given) {
	for len(in) >= 10 {
		g := given{source: in[0], id: digest(binary.BigEndian.Uint64(in[2:]))}
		keys := int(in[1])
		if in = in[10:]; len(in) < 8*keys {
			break
		}
		for range keys {
			g.keys = append(g.keys, digest(binary.BigEndian.Uint64(in)))
			in = in[8:]
		}
		log = append(log, g)
	}
	return log
}

// Memory is a Store that forgets when the process ends, and the oldest when it
// is full.
type Memory struct {
	max int

	mu    sync.Mutex
	byKey map[string]*list.Element
	order list.List // of *kept, oldest first
}

type kept struct {
	key   string
	value []byte
	until time.Time
}

// NewMemory is a Memory of at most that many entries, of up to some 700 kB each.
func NewMemory(entries int) *Memory {
	return &Memory{max: entries, byKey: make(map[string]*list.Element)}
}

// Put implements Store.
func (m *Memory) Put(key string, value []byte, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[key]; e != nil {
		m.order.Remove(e)
	}
	m.byKey[key] = m.order.PushBack(&kept{key, slices.Clone(value), time.Now().Add(ttl)})
	for m.order.Len() > m.max {
		delete(m.byKey, m.order.Remove(m.order.Front()).(*kept).key)
	}
}

// Get implements Store.
func (m *Memory) Get(key string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byKey[key]
	if e == nil || time.Now().After(e.Value.(*kept).until) {
		return nil, false
	}
	return slices.Clone(e.Value.(*kept).value), true
}
