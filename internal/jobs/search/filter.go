package search

import (
	"slices"
	"strings"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// place is a location filter: remote, words of a place, or both.
type place struct {
	remote bool
	at     term // empty key: anywhere
}

func (p place) empty() bool { return !p.remote && p.at.key == "" }

func parsePlace(s string) place {
	var p place
	var rest []string
	for _, word := range strings.Fields(posting.Key(s)) {
		if word == "remote" {
			p.remote = true
			continue
		}
		rest = append(rest, word)
	}
	p.at.key = strings.Join(rest, " ")
	return p
}

// answer is what a filter makes of a job.
type answer int

const (
	yes answer = iota
	no
	unknown // the job does not state it
)

// match reports whether the job is asked for; if so, with the names of the
// filters that it does not state enough for. lacks says that it was left out
// only because it does not state something.
func (p *plan) match(b *board.Board, job *posting.Job) (ok bool, unverified []string, lacks bool) {
	for _, filter := range []struct {
		name string
		says answer
	}{
		{"since", p.posted(job)},
		{"workplace", p.worksAt(job)},
		{"type", among(p.types, job.Type)},
		{"seniority", among(p.seniority, job.Seniority)},
		{"location", p.located(job)},
		{"pay", p.pays(job)},
	} {
		switch filter.says {
		case no:
			return false, nil, false
		case unknown:
			unverified = append(unverified, filter.name)
		}
	}
	if b.Parse == nil && len(p.employers) > 0 {
		company := posting.Key(job.Company)
		if !slices.ContainsFunc(p.employers, func(t term) bool { return t.in(company) }) {
			return false, nil, false
		}
	}
	if !p.text.empty() && !p.text.match(head(job), func() string { return posting.Key(posting.Plain(job.HTML)) }) {
		return false, nil, false
	}
	for _, name := range unverified {
		if p.query.Unstated == "drop" || p.query.Unstated == "" && name != "pay" {
			return false, nil, true
		}
	}
	return true, unverified, false
}

// head is the keys of what a job says in few words.
func head(job *posting.Job) string {
	keys := []string{posting.Key(job.Title), posting.Key(job.Company), posting.Key(job.Team)}
	for _, l := range job.Locations {
		keys = append(keys, posting.Key(l))
	}
	return strings.Join(keys, "\n")
}

func among[T ~string](wanted []T, value T) answer {
	switch {
	case len(wanted) == 0 || slices.Contains(wanted, value):
		return yes
	case value == "":
		return unknown
	}
	return no
}

func (p *plan) worksAt(job *posting.Job) answer {
	if len(p.workplace) == 0 {
		return yes
	}
	for _, w := range p.workplace {
		if slices.Contains(job.Workplace, w) || w == posting.Remote && saysRemote(job) {
			return yes
		}
	}
	if len(job.Workplace) == 0 && !saysRemote(job) {
		return unknown
	}
	return no
}

func saysRemote(job *posting.Job) bool {
	return slices.ContainsFunc(job.Locations, func(l string) bool { return term{key: "remote"}.in(posting.Key(l)) })
}

func (p *plan) located(job *posting.Job) answer {
	if p.place.empty() {
		return yes
	}
	remote := slices.Contains(job.Workplace, posting.Remote) || saysRemote(job)
	if p.place.remote && !remote {
		if len(job.Workplace) == 0 && len(job.Locations) == 0 {
			return unknown
		}
		return no
	}
	if p.place.at.key == "" {
		return yes
	}
	for _, l := range job.Locations {
		if p.place.at.in(posting.Key(l)) {
			return yes
		}
	}
	if len(job.Locations) == 0 {
		return unknown
	}
	return no
}

// posted compares as exactly as the board told the time: a job may be as young
// as its date allows.
func (p *plan) posted(job *posting.Job) answer {
	at := job.Posted.At
	switch job.Posted.Precision {
	case posting.Day, posting.Relative:
		at = at.Add(24 * time.Hour)
	case posting.AtLeast:
		if !p.since.IsZero() && !at.Before(p.since) {
			return unknown
		}
	}
	switch {
	case p.since.IsZero():
		return yes
	case job.Posted.Precision == posting.None:
		return unknown
	case at.Before(p.since):
		return no
	}
	return yes
}

// pays reports whether some salary of the job reaches the floor. What a board
// predicts, or states in another currency, is not known.
func (p *plan) pays(job *posting.Job) answer {
	if p.pay.least == 0 {
		return yes
	}
	says := unknown
	for _, pay := range job.Pay {
		factor := perYear[pay.Period]
		if pay.Kind != "salary" || pay.Source == "predicted" || factor == 0 || pay.Currency != p.pay.currency {
			continue
		}
		for _, sum := range []*float64{pay.Min, pay.Max} {
			if sum != nil && *sum*factor >= p.pay.least {
				return yes
			}
		}
		if pay.Max != nil {
			says = no
		}
	}
	return says
}
