package courtesy

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"layover/internal/jobs/board"
)

// What an entry of the cache costs beside its body, and how many there may be.
const (
	entryCost  = 512
	maxEntries = 4096
)

// kept are the header fields that an answer from the cache has.
var kept = []string{"Content-Type", "Content-Language", "Etag", "Last-Modified", "Link", "Vary"}

// cache keeps what boards answered, packed. Its bodies are in memory until they
// are saved, and in the state folder from then on.
//
// Invariant: bytes is the sum of cost over the entries, and at most limit.
type cache struct {
	limit int64
	read  func(name string) ([]byte, error) // a saved body; set before there is one

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   *list.List               // the most recently used first
	bytes   int64
	dropped map[string]bool // saved bodies that nothing refers to any more
	stats   CacheStats
}

// CacheStats counts what became of the questions to the cache.
type CacheStats struct {
	Entries     int
	Bytes       int64 // what the entries take, packed
	Hits        int   // answered without asking
	Misses      int
	Revalidated int // asked, and the board said that nothing had changed
	Withheld    int // not asked because of the board's terms, and not answered either
	Evicted     int
}

// entry is one answer. It is not changed but for the fields after the blank
// line, which cache.mu guards.
type entry struct {
	Key    string        `json:"key"`
	At     time.Time     `json:"-"`               // when the board said it last
	Fresh  time.Duration `json:"fresh,omitempty"` // Fresh and Least are the board's
	Least  time.Duration `json:"least,omitempty"`
	Header http.Header   `json:"header,omitempty"`
	Packed int64         `json:"packed,omitempty"` // bytes of the packed body; 0: the body is lost
	Size   int64         `json:"size,omitempty"`   // bytes of the body
	Sum    string        `json:"sum,omitempty"`    // of the packed body
	secret bool          // must not be written down

	body  []byte // packed; nil: it is saved, or lost
	saved bool
}

func (e *entry) cost() int64 { return e.Packed + entryCost }

// withheld reports whether the board's terms forbid to ask again at now.
func (e *entry) withheld(now time.Time) bool { return age(e.At, now) < e.Least }

// useful reports whether the entry can still save a question, or part of one.
func (e *entry) useful(now time.Time) bool {
	return e.withheld(now) || e.Packed > 0 && (age(e.At, now) < e.Fresh || e.validator())
}

func (e *entry) validator() bool {
	return e.Header.Get("Etag") != "" || e.Header.Get("Last-Modified") != ""
}

// age is how old something from at is: by the monotonic clock, or by the
// system's if that went further, as it does while a machine is suspended.
func age(at, now time.Time) time.Duration {
	return max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
}

// has reports whether the body of key is kept.
func (c *cache) has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	return ok && at.Value.(*entry).saved
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, entries: make(map[string]*list.Element), order: list.New(), dropped: make(map[string]bool)}
}

// keyOf names what r asks for: equal keys, equal answers.
func keyOf(r board.Request) string {
	h := sha256.New()
	part := func(s string) { fmt.Fprintf(h, "%d:%s,", len(s), s) }
	part(cmp.Or(r.Method, http.MethodGet))
	part(r.URL)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		part(http.CanonicalHeaderKey(name))
		part(strings.Join(r.Header[name], "\x00"))
	}
	part("")
	h.Write(r.Body)
	return hex.EncodeToString(h.Sum(nil))
}

// find returns the entry of key, or nil.
func (c *cache) find(key string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(at)
	return at.Value.(*entry)
}

// open returns the body of e.
func (c *cache) open(e *entry) ([]byte, error) {
	c.mu.Lock()
	packed, saved := e.body, e.saved
	c.mu.Unlock()
	if packed == nil {
		if !saved {
			return nil, errors.New("courtesy: the body was dropped")
		}
		var err error
		if packed, err = c.read(e.Key); err != nil {
			return nil, err
		}
		if sumOf(packed) != e.Sum {
			return nil, errors.New("courtesy: the saved body is not the one that was kept")
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, e.Size+bytes.MinRead)
	to := bytes.NewBuffer(body)
	if _, err := to.ReadFrom(io.LimitReader(z, e.Size+1)); err != nil {
		return nil, err
	}
	if int64(to.Len()) != e.Size {
		return nil, errors.New("courtesy: the saved body has another size")
	}
	return to.Bytes(), nil
}

// newEntry packs an answer.
func newEntry(key string, b *board.Board, a board.Answer) *entry {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the level is a valid one
	z.Write(a.Body)                                      // a bytes.Buffer takes everything
	z.Close()
	body := bytes.Clone(packed.Bytes())
	return &entry{
		Key: key, At: a.At, Fresh: b.Fresh, Least: b.Least, Header: keptOf(a.Header),
		Packed: int64(len(body)), Size: int64(len(a.Body)), Sum: sumOf(body), body: body,
		secret: strings.Contains(strings.ToLower(strings.Join(a.Header.Values("Cache-Control"), ",")), "no-store"),
	}
}

// renewed is e, said again at a time.
func (c *cache) renewed(e *entry, b *board.Board, a board.Answer) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := *e
	n.At, n.Fresh, n.Least = a.At, b.Fresh, b.Least
	n.Header = e.Header.Clone()
	maps.Copy(n.Header, keptOf(a.Header))
	return &n
}

func sumOf(packed []byte) string {
	sum := sha256.Sum256(packed)
	return hex.EncodeToString(sum[:])
}

// keptOf is the part of h that is kept, if it is of a sane length.
func keptOf(h http.Header) http.Header {
	const longest = 1024
	k := make(http.Header)
	for _, name := range kept {
		if v := strings.Join(h.Values(name), ", "); v != "" && len(v) <= longest {
			k.Set(name, v)
		}
	}
	return k
}

// put adds e in place of what was there for its key. Of an answer that cannot
// be kept, only that it was given is: its board's terms still hold.
func (c *cache) put(e *entry, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.entries[e.Key])
	if e.cost() > c.limit {
		loseBody(e)
	}
	if e.useful(now) {
		c.addLocked(e)
	}
	for c.bytes > c.limit || c.order.Len() > maxEntries {
		c.evictLocked(now)
	}
}

// addLocked adds e, whose saved body, if it has one, may be that of an entry that
// was just removed.
func (c *cache) addLocked(e *entry) {
	delete(c.dropped, e.Key)
	c.entries[e.Key] = c.order.PushFront(e)
	c.bytes += e.cost()
}

// removeLocked removes what is at at, if anything.
func (c *cache) removeLocked(at *list.Element) {
	if at == nil {
		return
	}
	e := c.order.Remove(at).(*entry)
	delete(c.entries, e.Key)
	c.bytes -= e.cost()
	if e.saved {
		c.dropped[e.Key] = true
	}
}

// evictLocked makes room: where there are too many entries it drops one, else a
// body. It takes the least recently used, but what an entry says about its
// board's terms outlives its body, and goes only when nothing else is left.
func (c *cache) evictLocked(now time.Time) {
	c.stats.Evicted++
	tooMany := c.order.Len() > maxEntries
	victim := c.order.Back()
	for at := victim; at != nil; at = at.Prev() {
		e := at.Value.(*entry)
		if !tooMany && e.Packed > 0 || tooMany && !e.withheld(now) {
			victim = at
			break
		}
	}
	e := victim.Value.(*entry)
	c.removeLocked(victim)
	if !tooMany && e.Packed > 0 && e.withheld(now) {
		bare := *e
		loseBody(&bare)
		c.entries[e.Key] = c.order.PushBack(&bare)
		c.bytes += bare.cost()
	}
}

func loseBody(e *entry) { e.Packed, e.Size, e.Sum, e.body, e.saved = 0, 0, "", nil, false }

// count counts into the statistics.
func (c *cache) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *cache) snapshot() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries, s.Bytes = c.order.Len(), c.bytes
	return s
}

// unsaved returns the entries to be written down, the least recently used
// first, those whose bodies are not, and the bodies to be removed.
func (c *cache) unsaved(now time.Time) (all, bodies []*entry, dropped []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.order.Back(); at != nil; at = at.Prev() {
		e := at.Value.(*entry)
		if !e.useful(now) {
			continue
		}
		if e.secret {
			bare := *e
			loseBody(&bare)
			e = &bare
			if !e.useful(now) {
				continue
			}
		}
		all = append(all, e)
		if e.body != nil && !e.saved {
			bodies = append(bodies, e)
		}
	}
	dropped = slices.Collect(maps.Keys(c.dropped))
	clear(c.dropped)
	return all, bodies, dropped
}

// bodySaved says that the body of e is in the folder now.
func (c *cache) bodySaved(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.entries[e.Key]; ok && at.Value.(*entry) == e {
		e.saved, e.body = true, nil
		return
	}
	c.dropped[e.Key] = true
}
