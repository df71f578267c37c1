package courtesy

import (
	"bytes"
	"container/list"
	"sync"
	"time"
)

// What a Keep holds at most.
const (
	maxItems     = 512
	maxKeepBytes = 4 << 20
	maxItemBytes = 1 << 20
	maxTTL       = 30 * 24 * time.Hour
)

// Keep is a small bounded store of named values that end after a time, and
// survive a restart of the program if the state does. It is for what a caller
// cannot be asked to carry, such as what is behind a short cursor. When it is
// full the oldest value goes. It may be used by several goroutines at once.
type Keep struct {
	changed func()

	mu    sync.Mutex
	items map[string]*list.Element // of item
	order *list.List               // the last put first
	bytes int
}

type item struct {
	Key   string    `json:"key"`
	Value []byte    `json:"value"`
	Until time.Time `json:"until"`
}

func newKeep(changed func()) *Keep {
	return &Keep{changed: changed, items: make(map[string]*list.Element), order: list.New()}
}

// Put keeps a copy of value under key for ttl, 30 days at most, in place of what
// was there. Of more than 1 MiB, with the key, nothing is kept.
func (k *Keep) Put(key string, value []byte, ttl time.Duration) {
	k.put(item{key, bytes.Clone(value), time.Now().Add(min(ttl, maxTTL))})
	k.changed()
}

func (k *Keep) put(i item) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removeLocked(k.items[i.Key])
	if len(i.Key)+len(i.Value) > maxItemBytes {
		return
	}
	k.items[i.Key] = k.order.PushFront(i)
	k.bytes += len(i.Key) + len(i.Value)
	for k.order.Len() > maxItems || k.bytes > maxKeepBytes {
		k.removeLocked(k.order.Back())
	}
}

// Get returns a copy of what is kept under key, if its time is not over.
func (k *Keep) Get(key string) (value []byte, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.items[key]
	if !ok {
		return nil, false
	}
	i := at.Value.(item)
	if !i.Until.After(time.Now()) {
		return nil, false
	}
	return bytes.Clone(i.Value), true
}

func (k *Keep) removeLocked(at *list.Element) {
	if at == nil {
		return
	}
	i := k.order.Remove(at).(item)
	delete(k.items, i.Key)
	k.bytes -= len(i.Key) + len(i.Value)
}

// all returns what is kept and not over, the first put first.
func (k *Keep) all(now time.Time) []item {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []item
	for at := k.order.Back(); at != nil; at = at.Prev() {
		if i := at.Value.(item); i.Until.After(now) {
			all = append(all, i)
		}
	}
	return all
}
