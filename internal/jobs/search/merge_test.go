package search

import (
	"slices"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// double is the same job as boards see it.
func double(boardName, company, url string) posting.Job {
	return posting.Job{ID: posting.ID(boardName, "", "1"), Title: "Senior Gopher", Company: company, URL: url,
		Locations: []string{"Berlin"}, Posted: posting.Date{At: epoch, Precision: posting.Day}}
}

func TestJ44_SameCanonicalURLIsOneItem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		own := double("greenhouse", "Acme", "https://Jobs.Acme.example/1/?gh_src=x&gh_jid=1")
		own.ID = "greenhouse/acme/1"
		other := double("remotive", "ACME Inc. (hiring)", "https://jobs.acme.example/1?utm_source=remotive&gh_jid=1")
		other.Title = "Gopher (m/f/d)"
		a := &stand{name: "aggregator", pages: [][]posting.Job{{other}}}
		g := &stand{name: "greenhouse", company: true, delay: time.Millisecond, pages: [][]posting.Job{{own}}}
		r := ask(t, engine(Options{}, a, g), time.Second, Query{Sources: []string{"aggregator", "greenhouse:acme"}})
		if len(r.Items) != 1 || r.Duplicates != 1 || !r.Complete {
			t.Fatalf("%d items, %d duplicates, complete %v; want 1, 1, complete", len(r.Items), r.Duplicates, r.Complete)
		}
		it := r.Items[0]
		want := []posting.Source{{ID: own.ID, Board: "greenhouse", URL: own.URL}, {ID: other.ID, Board: "remotive", URL: other.URL}}
		if it.ID != own.ID || !slices.Equal(it.Sources, want) {
			t.Errorf("id %s, sources %v; want the employer's own board first: %v", it.ID, it.Sources, want)
		}
	})
}

func TestJ43_NonLatinTitlesDoNotBecomeOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var stands []*stand
		for i, words := range [][2]string{{"株式会社甲", "エンジニア"}, {"株式会社甲", "デザイナー"}, {"Яндекс", "Инженер"}, {"שלום", "מהנדס"}, {"株式会社乙", "エンジニア"}} {
			job := double(string(rune('a'+i)), words[0], "")
			job.Title = words[1]
			stands = append(stands, &stand{name: string(rune('a' + i)), pages: [][]posting.Job{{job}}})
		}
		same := double("z", "株式会社甲", "")
		same.Title = "ｴﾝｼﾞﾆｱ" // half width
		stands = append(stands, &stand{name: "z", pages: [][]posting.Job{{same}}})
		r := ask(t, engine(Options{}, stands...), time.Second, Query{})
		if len(r.Items) != 5 || r.Duplicates != 1 {
			t.Errorf("%d items, %d duplicates; want 5 different jobs and one in another spelling", len(r.Items), r.Duplicates)
		}
	})
}

func TestJobsOfOneSourceAreNeverOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := double("alpha", "Acme", "https://acme.example/careers"), double("alpha", "Acme", "https://acme.example/careers")
		b.ID = "alpha//2"
		other := double("beta", "Acme", "https://acme.example/careers")
		for _, limit := range []int{1, 10} {
			seen, _ := follow(t, engine(Options{},
				&stand{name: "alpha", pages: [][]posting.Job{{a, b}}},
				&stand{name: "beta", pages: [][]posting.Job{{other}}}), time.Second, Query{Limit: limit})
			if seen["alpha//1"] != 1 || seen["alpha//2"] != 1 || len(seen) != 2 {
				t.Errorf("limit %d: given %v; want both of alpha once, and beta's with one of them", limit, seen)
			}
		}
	})
}

func TestJobsWithoutPlaceOrCompanyAreComparedByURLOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := double("alpha", "Acme", "https://a.example/1"), double("beta", "Acme", "https://b.example/1")
		a.Locations, b.Locations = nil, nil
		c, d := double("gamma", "", "https://c.example/1"), double("delta", "", "https://d.example/1")
		var stands []*stand
		for name, job := range map[string]posting.Job{"alpha": a, "beta": b, "gamma": c, "delta": d} {
			stands = append(stands, &stand{name: name, pages: [][]posting.Job{{job}}})
		}
		if r := ask(t, engine(Options{}, stands...), time.Second, Query{}); len(r.Items) != 4 {
			t.Errorf("%d items, want 4: too little is known of them to call any two the same", len(r.Items))
		}
	})
}

// The other board's copy of a job comes in a later answer.
func TestDuplicateOfAnEarlierAnswerIsNotGiven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := paged("alpha", "", 2, 10)
		b := paged("beta", "", 2, 10)
		for i := range b {
			for j := range b[i] { // the same twenty jobs, in the other order
				b[1-i][9-j].Company, b[1-i][9-j].Title = a[i][j].Company, a[i][j].Title
				b[1-i][9-j].Posted = a[i][j].Posted
			}
		}
		for limit := 1; limit <= 20; limit++ {
			seen, answers := follow(t, engine(Options{}, &stand{name: "alpha", pages: a}, &stand{name: "beta", pages: b}),
				time.Second, Query{Limit: limit})
			if len(seen) != 20 || !answers[len(answers)-1].Complete {
				t.Errorf("limit %d: %d items, want 20", limit, len(seen))
			}
			titles := make(map[string]int)
			for _, r := range answers {
				for _, it := range r.Items {
					titles[it.Title]++
				}
			}
			for title, n := range titles {
				if n != 1 {
					t.Errorf("limit %d: %s was given %d times", limit, title, n)
				}
			}
		}
	})
}

// Of two jobs that look the same one is the other board's, whenever it comes.
func TestOnlyOneJobOfASourceIsTheEarlierOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second := double("beta", "Acme", "https://acme.example/careers"), double("beta", "Acme", "https://acme.example/careers")
		second.ID = "beta//2"
		alpha := &stand{name: "alpha", pages: [][]posting.Job{{double("alpha", "Acme", "https://acme.example/careers")}}}
		beta := &stand{name: "beta", pages: [][]posting.Job{{first, second}}, fail: func(_, call int) error {
			if call == 1 {
				return trouble(board.Unavailable)
			}
			return nil
		}}
		seen, answers := follow(t, engine(Options{}, alpha, beta), time.Second, Query{})
		if len(answers) != 2 || len(seen) != 2 || seen["alpha//1"] != 1 || seen["beta//2"] != 1 {
			t.Errorf("%d answers gave %v; want alpha's, then beta's second", len(answers), seen)
		}
	})
}
