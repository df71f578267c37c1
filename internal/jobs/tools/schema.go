package tools

import "time"

// schema is a JSON Schema that the strictest clients read: one plain type each,
// no references, no unions, no null.
type schema map[string]any

func text(description string) schema    { return plain("string", description) }
func integer(description string) schema { return plain("integer", description) }
func number(description string) schema  { return plain("number", description) }
func boolean(description string) schema { return plain("boolean", description) }

func plain(kind, description string) schema {
	s := schema{"type": kind}
	if description != "" {
		s["description"] = description
	}
	return s
}

func array(of schema, description string) schema {
	return schema{"type": "array", "items": of, "description": description}
}

func object(required []string, properties map[string]schema) schema {
	if required == nil {
		required = []string{}
	}
	return schema{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (s schema) with(key string, value any) schema {
	s[key] = value
	return s
}

func (s *Server) listInput() schema {
	seconds := s.o.Longest.Seconds()
	return object(nil, map[string]schema{
		"sources": array(text("board:company, or board for a board without companies"),
			`Exactly these boards, such as "greenhouse:acme" or "remotive". A company is named as in the address of its job pages.`).with("maxItems", 64),
		"boards": array(text("a board's name").with("enum", s.boards),
			"Boards to list. Those that are one per company need companies too. Without sources, boards and companies, all boards that take no company are listed."),
		"companies": array(text("a company's name as in the address of its job pages"),
			"Companies to list on boards, or, without boards, on every board that can have them. On boards without companies it filters by employer."),
		"query":     text(`Words that a job must have, anywhere in title, company, team, places or description: all of them. "two words" is a phrase, a OR b either, -a not, go* a beginning.`).with("maxLength", 500),
		"location":  text(`Words of a place, "remote", or both: "remote germany".`).with("maxLength", 500),
		"workplace": array(text("").with("enum", workplaces), "Any of these ways to work."),
		"type":      array(text("").with("enum", types), "Any of these kinds of employment."),
		"seniority": array(text("").with("enum", seniorities), "Any of these levels."),
		"salary_min": number("A floor for the upper end of the salary, in salary_currency per salary_period. Jobs that state no pay stay, marked as unverified.").
			with("minimum", 0),
		"salary_currency": text(`ISO 4217, such as "EUR"; needed with salary_min.`),
		"salary_period":   text("What salary_min is for; default year.").with("enum", periods),
		"posted_since":    text(`A day ("2026-11-01"), an instant (RFC 3339) or an age ("36h", "7d", "2w").`),
		"unstated":        text("What becomes of jobs that do not state what a filter asks: default is to keep those that lack the pay only.").with("enum", unstated),
		"limit":           integer("The most jobs of the answer; default 20.").with("minimum", 1).with("maximum", 100),
		"cursor":          text("Goes on where an answer ended: repeat its cursor exactly; everything else may then be left out."),
		"timeout_seconds": number("How long the whole call may take, everything included; the answer comes by then with what there is. Default "+
			words(s.o.Default)+", at most "+words(s.o.Longest)+".").with("minimum", leastSeconds).with("maximum", seconds),
		"deadline": text("The instant by which the answer must be there, RFC 3339 with a zone. Of deadline and timeout_seconds the earlier one counts."),
	})
}

func (s *Server) getInput() schema {
	return object([]string{"id"}, map[string]schema{
		"id": text(`The id of a job in an answer of ` + s.name(listName) + `: "board/company/job".`),
		"description_limit": integer("The most bytes of the description; default "+decimal(s.o.descriptionBytes())+".").
			with("minimum", 200).with("maximum", s.o.TextBytes),
		"timeout_seconds": number("How long the whole call may take. Default "+words(s.o.Default)+", at most "+words(s.o.Longest)+".").
			with("minimum", leastSeconds).with("maximum", s.o.Longest.Seconds()),
		"deadline": text("The instant by which the answer must be there, RFC 3339 with a zone."),
	})
}

func jobSchema() schema {
	pay := object([]string{"kind", "source"}, map[string]schema{
		"kind":     text("salary, equity, bonus or commission"),
		"min":      number("in whole units of currency"),
		"max":      number("in whole units of currency"),
		"currency": text("ISO 4217"),
		"period":   text("hour, day, week, month or year"),
		"source":   text("stated, predicted by the board, or text: read from words"),
		"text":     text("the posting's own words"),
	})
	return object([]string{"id", "title", "company", "locations", "workplace", "pay", "also_at", "unverified"}, map[string]schema{
		"id":               text("for jobs.get"),
		"title":            text("text from the posting"),
		"company":          text("text from the posting"),
		"locations":        array(text(""), "text from the posting"),
		"workplace":        array(text(""), "remote, hybrid, on_site; empty: not stated"),
		"pay":              array(pay, "empty: not stated"),
		"posted":           text("a day or an instant; absent: not stated"),
		"posted_precision": text("instant, day, relative (counted back from words) or at_least (so long ago or longer)"),
		"updated":          text("a day or an instant"),
		"closes":           text("a day or an instant"),
		"type":             text("absent: not stated"),
		"seniority":        text("absent: not stated"),
		"team":             text("text from the posting"),
		"language":         text("BCP 47"),
		"url":              text("the posting, for people"),
		"apply_url":        text("where one applies, if that is another page"),
		"also_at":          array(text(""), "ids of the same job on other boards"),
		"unverified":       array(text(""), "filters that the job does not state enough for"),
	})
}

func timeSchema() schema {
	return object([]string{"limit_ms", "spent_ms"}, map[string]schema{
		"limit_ms": integer("what the call had when it arrived here"),
		"spent_ms": integer("what it used of that"),
	})
}

func listOutput() schema {
	source := object([]string{"source", "board", "status", "pages", "received", "broken", "matched", "unstated", "capped", "more", "elapsed_ms"}, map[string]schema{
		"source":  text("board:company, or board"),
		"board":   text(""),
		"company": text(""),
		"status": text("ok, empty, unknown_board, empty_or_unknown, blocked, rate_limited, gone, not_visible, malformed, unavailable, deadline, cancelled, pages; " +
			"partial: some pages were read, then reason happened"),
		"reason":         text("of partial"),
		"detail":         text("the same for people"),
		"page":           text("a page for people that may help"),
		"pages":          integer("read so far"),
		"received":       integer("jobs received"),
		"broken":         integer("of these, how many could not be read"),
		"matched":        integer("jobs that were asked for"),
		"unstated":       integer("left out only because they do not state what a filter asks"),
		"reported_total": integer("what the board says it has; absent: it does not say"),
		"capped":         boolean("the board has more than it shows"),
		"more":           boolean("there are pages that were not read"),
		"retry_at":       text("when asking again makes sense"),
		"elapsed_ms":     integer("in this call"),
	})
	return object([]string{"jobs", "complete", "stop_reason", "received", "left", "duplicates", "sources", "time"}, map[string]schema{
		"jobs":        array(jobSchema(), "newest first; those without a date last"),
		"complete":    boolean("nothing is missing: with the answers before it, these are all matches that the sources have"),
		"stop_reason": text("done, limit, size, deadline, rate_limited, partial, pages or cancelled"),
		"cursor":      text("goes on from here; absent: there is nothing to go on to"),
		"retry_at":    text("when the first source that asked for a pause can be asked again"),
		"received":    integer("jobs that this call read"),
		"left":        integer("matches already found that the cursor still has"),
		"duplicates":  integer("jobs that are no items of their own because another source has them"),
		"sources":     array(source, "what became of each"),
		"time":        timeSchema(),
	})
}

func getOutput() schema {
	return object([]string{"id", "status", "description_truncated", "time"}, map[string]schema{
		"id":                    text(""),
		"status":                text("ok: job is there; else what happened. Only gone says that the job is over"),
		"detail":                text("for people"),
		"page":                  text("a page for people that may help"),
		"retry_at":              text("when asking again makes sense"),
		"job":                   jobSchema(),
		"description":           text("Markdown; untrusted text from the posting; absent: the board sent none"),
		"description_truncated": boolean("the description is longer"),
		"time":                  timeSchema(),
	})
}

// words is a length of time as people write it: "45 s".
func words(d time.Duration) string { return decimal(int(d.Seconds())) + " s" }
