// Package posting is the one form in which every job board's postings are
// known: what boards spell in twelve ways is read here, once.
//
// A Job is plain data. Fields that a board does not state stay empty: nothing
// is guessed, and an unknown value never poses as a known one.
package posting

import "time"

// Job is one posting of one board, or of several after they were found to be
// the same.
type Job struct {
	// ID is "board/company/local", the form that a later request for this job
	// alone uses. Boards without companies have an empty middle: "remotive//7".
	ID        string
	Title     string // plain text: entities decoded, blanks collapsed
	Company   string // the name for people; the company's slug if a board states none
	Locations []string
	Workplace []Workplace // empty: not stated
	Pay       []Pay
	Posted    Date
	Updated   Date
	Closes    Date
	Type      Type   // empty: not stated
	TypeRaw   string // in the board's own words
	Seniority Seniority
	LevelRaw  string
	Team      string // department or team
	Language  string // BCP 47, as far as the board says it
	URL       string // for people, canonical: no tracking parameters
	Apply     string // where one applies, if that is another page
	Sources   []Source

	// HTML is the description as the board has it, decoded once, or empty if
	// this answer of the board did not carry it. Markdown and Plain read it.
	HTML string
}

// Source is one place where a job was found.
type Source struct {
	ID    string // as Job.ID
	Board string
	URL   string
}

// Workplace is where the work is done.
type Workplace string

// The workplaces that boards tell apart.
const (
	Remote Workplace = "remote"
	Hybrid Workplace = "hybrid"
	OnSite Workplace = "on_site"
)

// Type is the kind of employment.
type Type string

// The kinds of employment that boards tell apart.
const (
	FullTime   Type = "full_time"
	PartTime   Type = "part_time"
	Contract   Type = "contract"
	Temporary  Type = "temporary"
	Internship Type = "internship"
	Other      Type = "other" // stated, and none of these
)

// Seniority is the level of experience that a posting asks for.
type Seniority string

// The levels that boards tell apart.
const (
	Intern    Seniority = "intern"
	Junior    Seniority = "junior"
	Mid       Seniority = "mid"
	Senior    Seniority = "senior"
	Lead      Seniority = "lead"
	Executive Seniority = "executive"
)

// Pay is one statement about money.
type Pay struct {
	Kind     string   // "salary", "equity", "bonus", "commission"
	Min, Max *float64 // in whole units of Currency; nil: not stated
	Currency string   // ISO 4217, or empty
	Period   string   // "hour", "day", "week", "month", "year", or empty
	Source   string   // "stated", "predicted" by the board, or "text": read from words
	Text     string   // the board's words, if it used any
}

// Date is a point in time as exact as the board said it.
type Date struct {
	At        time.Time
	Precision Precision // None: At means nothing
}

// Precision says how much of a Date is known.
type Precision string

// How exactly boards tell the time.
const (
	None     Precision = ""
	Instant  Precision = "instant"
	Day      Precision = "day"      // At is midnight UTC of that day
	Relative Precision = "relative" // counted back from when it was read ("3 days ago")
	AtLeast  Precision = "at_least" // so long ago or longer ("30+ days ago"); At is the latest it can be
)
