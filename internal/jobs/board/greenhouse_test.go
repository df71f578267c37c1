package board_test

import (
	"slices"
	"strings"
	"testing"

	"layover/internal/jobs/posting"
)

func TestGreenhouse_J38_OfficesAreThePlaceIfItSaysHowOneWorks(t *testing.T) {
	for location, want := range map[string][]string{
		`{"name":"Hybrid"}`:                  {"São Paulo, Brazil", "Cork"},
		`{"name":"In-Office; Distributed"}`:  {"São Paulo, Brazil", "Cork"},
		`{"name":null}`:                      {"São Paulo, Brazil", "Cork"},
		`null`:                               {"São Paulo, Brazil", "Cork"},
		`{"name":"Remote - Poland"}`:         {"Poland"},
		`{"name":"London; Paris; (Remote)"}`: {"London", "Paris"},
	} {
		b, in, s := on(t, "greenhouse", "acme", `{"jobs":[{"id":1,"title":"a","location":`+location+
			`,"offices":[{"name":"SP","location":"São Paulo, Brazil"},{"name":"Cork","location":null},{"name":"Remote"}]}]}`)
		if got := mustPage(t, b, in, s, "").Jobs[0].Locations; !slices.Equal(got, want) {
			t.Errorf("location %s: %q, want %q", location, got, want)
		}
	}
}

func TestGreenhouse_J36_J37_J40_ContentIsAskedForAndDecodedOnceMore(t *testing.T) {
	const row = `{"id":1,"title":"R&amp;D","content":"&lt;p&gt;R&amp;amp;D &amp;lt;b&amp;gt;&lt;/p&gt;"}`
	b, in, s := on(t, "greenhouse", "acme", `{"jobs":[`+row+`]}`, row)
	listed := mustPage(t, b, in, s, "").Jobs[0]
	got, err := b.Get(t.Context(), s.fetch, in.Company, "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []posting.Job{listed, got} {
		if job.Title != "R&D" || job.HTML != "<p>R&amp;D &lt;b&gt;</p>" || posting.Plain(job.HTML) != "R&D <b>" {
			t.Errorf("title %q, description %q", job.Title, job.HTML)
		}
	}
	if !strings.HasSuffix(s.asked[0].URL, "/jobs?content=true") || !strings.Contains(s.asked[1].URL, "pay_transparency=true") {
		t.Errorf("asked for %q and %q", s.asked[0].URL, s.asked[1].URL)
	}
}
