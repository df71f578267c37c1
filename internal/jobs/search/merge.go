package search

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"layover/internal/jobs/posting"
)

// digest stands for a text in cursors and maps.
type digest uint64

func digestOf(parts ...string) digest {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return digest(binary.BigEndian.Uint64(sum[:]))
}

// found is a job as one source has it.
type found struct {
	job        posting.Job
	source     int // index in the plan
	direct     bool
	unverified []string
	id         digest
	keys       []digest // what the same job of another source has too
	cost       int      // of an item of it
}

// find prepares a job outside of all locks.
func find(job posting.Job, source int, direct bool, unverified []string) *found {
	f := &found{job: job, source: source, direct: direct, unverified: unverified, id: digestOf(job.ID)}
	if u := posting.CanonicalURL(job.URL); u != "" {
		f.keys = append(f.keys, digestOf("url", u))
	}
	company, title := posting.Key(job.Company), posting.Key(job.Title)
	var places []string
	for _, l := range job.Locations {
		places = append(places, posting.Key(l))
	}
	if company != "" && title != "" && len(places) > 0 {
		slices.Sort(places)
		f.keys = append(f.keys, digestOf("job", company, title, strings.Join(slices.Compact(places), "\n")))
	}
	return f
}

// item is one job, of the sources that have it.
type item struct {
	found []*found // by preference, once the listing is over
	given bool     // it is in the answer
}

// pile makes items of jobs. It is not safe for concurrent use.
type pile struct {
	single bool // there is one source: nothing to compare
	items  []*item
	byKey  map[digest][]*item

	// What earlier answers have given: ids, and under each key the sources that
	// had the job.
	ids  map[digest]bool
	keys map[digest][]byte
	log  []given // the same, in the order in which it was given
	dups int
}

// given is one job that an answer had.
type given struct {
	source byte
	id     digest
	keys   []digest
}

func newPile(single bool, before []given) *pile {
	p := &pile{single: single, byKey: make(map[digest][]*item), ids: make(map[digest]bool), keys: make(map[digest][]byte)}
	for _, g := range before {
		p.give(g)
	}
	return p
}

func (p *pile) give(g given) {
	p.log = append(p.log, g)
	p.ids[g.id] = true
	for _, k := range g.keys {
		if !slices.Contains(p.keys[k], g.source) {
			p.keys[k] = append(p.keys[k], g.source)
		}
	}
}

// add puts a job where it belongs: an item of its own, or one that another
// source had first. It returns nil for what earlier answers have given, and
// whether the item is new.
func (p *pile) add(f *found) (it *item, fresh bool) {
	if p.ids[f.id] {
		return nil, false
	}
	if p.single {
		f.keys = nil
	}
	for _, k := range f.keys {
		if sources := p.keys[k]; len(sources) > 0 && !slices.Contains(sources, byte(f.source)) {
			p.dups++
			p.give(given{byte(f.source), f.id, f.keys})
			return nil, false
		}
	}
	for _, k := range f.keys {
		for _, it := range p.byKey[k] {
			if !slices.ContainsFunc(it.found, func(other *found) bool { return other.source == f.source }) {
				p.dups++
				p.join(it, f)
				return it, false
			}
		}
	}
	it = &item{}
	p.items = append(p.items, it)
	p.join(it, f)
	return it, true
}

func (p *pile) join(it *item, f *found) {
	it.found = append(it.found, f)
	for _, k := range f.keys {
		if !slices.Contains(p.byKey[k], it) {
			p.byKey[k] = append(p.byKey[k], it)
		}
	}
}

// sort puts the items in the order of the answer.
func (p *pile) sort() {
	for _, it := range p.items {
		slices.SortFunc(it.found, func(a, b *found) int {
			if a.direct != b.direct { // the employer's own board knows best
				if a.direct {
					return -1
				}
				return 1
			}
			return cmp.Or(cmp.Compare(a.source, b.source), strings.Compare(a.job.ID, b.job.ID))
		})
	}
	slices.SortFunc(p.items, func(x, y *item) int {
		a, b := &x.found[0].job, &y.found[0].job
		if undated := a.Posted.Precision == posting.None; undated != (b.Posted.Precision == posting.None) {
			if undated {
				return 1
			}
			return -1
		} else if !undated && !a.Posted.At.Equal(b.Posted.At) {
			return b.Posted.At.Compare(a.Posted.At)
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// answer is the item as it is given.
func (it *item) answer() Item {
	best := it.found[0]
	out := Item{Job: best.job, Unverified: best.unverified}
	out.Sources = nil
	for _, f := range it.found {
		board, _, _ := strings.Cut(f.job.ID, "/")
		out.Sources = append(out.Sources, posting.Source{ID: f.job.ID, Board: board, URL: f.job.URL})
	}
	return out
}
