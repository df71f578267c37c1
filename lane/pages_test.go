package lane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"layover/budget"
)

// walkAll runs Pages to its end.
func walkAll(ctx context.Context, p Paging[string]) (items []string, end Outcome) {
	for some := range Pages(ctx, p, &end) {
		items = append(items, some...)
	}
	return items, end
}

func self(s string) string { return s }

// chain is a source whose pages follow each other by tokens: pages["a"] is the page of token a.
func chain(pages map[string]Page[string]) (fetch func(context.Context, Place) (Page[string], error), asked *[]string) {
	asked = new([]string)
	return func(_ context.Context, at Place) (Page[string], error) {
		*asked = append(*asked, at.Token)
		return pages[at.Token], nil
	}, asked
}

func items(s ...string) []string { return s }

func TestL8_PagesAreFetchedUntilThereIsNoMore(t *testing.T) {
	fetch, asked := chain(map[string]Page[string]{
		"":  {Items: items("1", "2"), More: true, Next: "a"},
		"a": {Items: items("3"), More: true, Next: "b"},
		"b": {Items: items("4")},
	})
	p := Paging[string]{Fetch: fetch}
	got, end := walkAll(operation(t, time.Minute), p)
	if want := items("1", "2", "3", "4"); !slices.Equal(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
	want := Outcome{Stop: Done, Pages: 3, Rows: 4, Items: 4, Next: Place{Offset: 4, Page: 3}}
	if end != want {
		t.Errorf("it ended with %+v, want %+v", end, want)
	}
	// From where an earlier one ended.
	p.From = Place{Token: "b", Offset: 3, Page: 2}
	if got, end = walkAll(operation(t, time.Minute), p); !slices.Equal(got, items("4")) || end.Next != want.Next {
		t.Errorf("from the last page: %v, %+v", got, end)
	}
	if !slices.Equal(*asked, items("", "a", "b", "b")) {
		t.Errorf("asked for %q", *asked)
	}
}

func TestA61_L8_ATokenThatWasThereBeforeIsAnError(t *testing.T) {
	for name, pages := range map[string]map[string]Page[string]{
		"the same":       {"": {Items: items("1"), More: true, Next: "a"}, "a": {Items: items("2"), More: true, Next: "a"}},
		"an earlier one": {"": {Items: items("1"), More: true, Next: "a"}, "a": {Items: items("2"), More: true, Next: "b"}, "b": {Items: items("3"), More: true, Next: "a"}},
		"empty":          {"": {Items: items("1"), More: true, Next: "a"}, "a": {Items: items("2"), More: true}},
	} {
		fetch, asked := chain(pages)
		_, end := walkAll(operation(t, time.Minute), Paging[string]{Fetch: fetch})
		if end.Stop != Failed || !errors.Is(end.Err, ErrRepeated) || len(*asked) != len(pages) || end.Items != len(pages) {
			t.Errorf("%s: %+v after asking for %q; want ErrRepeated after each page once", name, end, *asked)
		}
	}
	// From the middle, an empty token would be the beginning.
	fetch, asked := chain(map[string]Page[string]{"x": {Items: items("1"), More: true}})
	_, end := walkAll(operation(t, time.Minute), Paging[string]{Fetch: fetch, From: Place{Token: "x"}})
	if !errors.Is(end.Err, ErrRepeated) || len(*asked) != 1 {
		t.Errorf("from the middle: %+v after asking for %q; want ErrRepeated", end, *asked)
	}
}

func TestA62_L8_TheSameTokenCanBeTheEnd(t *testing.T) {
	fetch, _ := chain(map[string]Page[string]{"": {Items: items("1"), More: true, Next: "a"}, "a": {Items: items("2"), More: true, Next: "a"}})
	got, end := walkAll(operation(t, time.Minute), Paging[string]{Fetch: fetch, SameTokenEnds: true})
	if end.Stop != Done || end.Err != nil || !slices.Equal(got, items("1", "2")) {
		t.Errorf("%v, %+v; want both items and Done", got, end)
	}
	// Only the same: a circle is still an error.
	fetch, _ = chain(map[string]Page[string]{"": {Items: items("1"), More: true, Next: "a"}, "a": {More: true, Next: "b", Items: items("2")}, "b": {More: true, Next: "a", Items: items("3")}})
	if _, end = walkAll(operation(t, time.Minute), Paging[string]{Fetch: fetch, SameTokenEnds: true}); !errors.Is(end.Err, ErrRepeated) {
		t.Errorf("a circle: %+v, want ErrRepeated", end)
	}
}

// A source that counts, and to which rows are added in front while it is read.
func TestA63_L8_OffsetsCountRowsAndRepeatedItemsAreLeftOut(t *testing.T) {
	rows := items("5", "4", "3", "2", "1")
	var offsets []int
	fetch := func(_ context.Context, at Place) (Page[string], error) {
		offsets = append(offsets, at.Offset)
		to := min(at.Offset+2, len(rows))
		p := Page[string]{Items: slices.Clone(rows[at.Offset:to]), More: to < len(rows)}
		if at.Page == 0 {
			rows = slices.Insert(rows, 0, "6")
		}
		return p, nil
	}
	got, end := walkAll(operation(t, time.Minute), Paging[string]{Fetch: fetch, ID: self})
	if want := items("5", "4", "3", "2", "1"); !slices.Equal(got, want) || !slices.Equal(offsets, []int{0, 2, 4}) {
		t.Errorf("items %v at the offsets %v, want %v at 0, 2, 4", got, offsets, want)
	}
	if end.Rows != 6 || end.Items != 5 || end.Repeated != 1 || end.Next.Offset != 6 {
		t.Errorf("%+v; want 6 rows, 5 items, 1 repeated", end)
	}
	// Rows that Fetch did not make items of count as well.
	fetch = func(_ context.Context, at Place) (Page[string], error) {
		offsets = append(offsets, at.Offset)
		return Page[string]{Items: items(strconv.Itoa(at.Page)), Rows: 50, More: at.Page < 2}, nil
	}
	offsets = nil
	if walkAll(operation(t, time.Minute), Paging[string]{Fetch: fetch}); !slices.Equal(offsets, []int{0, 50, 100}) {
		t.Errorf("offsets %v, want 0, 50, 100", offsets)
	}
}

func TestJ31_L8_APageWithNothingNewIsTheSourcesCap(t *testing.T) {
	pages := 0
	_, end := walkAll(operation(t, time.Minute), Paging[string]{ID: self, Fetch: func(_ context.Context, at Place) (Page[string], error) {
		pages++
		return Page[string]{Items: items(fmt.Sprint(at.Page%3), "every page has it"), More: true}, nil // wraps after three
	}})
	if end.Stop != SourceCap || end.Err != nil || pages != 4 || end.Items != 4 {
		t.Errorf("%+v after %d pages; want SourceCap after 4, with 4 items", end, pages)
	}
	// And one that says so.
	_, end = walkAll(operation(t, time.Minute), Paging[string]{Fetch: func(_ context.Context, at Place) (Page[string], error) {
		return Page[string]{Items: items("1"), More: true, Capped: at.Page == 1}, nil
	}})
	if end.Stop != SourceCap || end.Pages != 2 || end.Items != 2 {
		t.Errorf("%+v; want SourceCap after 2 pages", end)
	}
}

func TestA61_L8_EmptyPagesAreAnEndUnlessTheSourceFilters(t *testing.T) {
	for most, want := range map[int]int{0: 1, 2: 3, 3: 5} {
		pages := 0
		got, end := walkAll(operation(t, time.Minute), Paging[string]{EmptyPages: most, Fetch: func(_ context.Context, at Place) (Page[string], error) {
			pages++
			if at.Page == 3 {
				return Page[string]{Items: items("late")}, nil
			}
			return Page[string]{More: true, Next: fmt.Sprint("t", at.Page)}, nil
		}})
		want = min(want, 4)
		if end.Stop != Done || pages != want || len(got) != max(0, want-3) {
			t.Errorf("EmptyPages %d: %v, %+v after %d pages; want Done after %d", most, got, end, pages, want)
		}
	}
}

func TestL8_EmptyPagesAreCountedInARow(t *testing.T) {
	expired := false
	got, end := walkAll(operation(t, time.Minute), Paging[string]{EmptyPages: 1, Restarts: 1, Fetch: func(_ context.Context, at Place) (Page[string], error) {
		p := Page[string]{More: at.Page < 5, Next: fmt.Sprint(at.Page)}
		switch {
		case at.Page == 1 && !expired: // after an empty one, which comes again
			expired = true
			return p, ErrCursorExpired
		case at.Page%2 == 1:
			p.Items = items(fmt.Sprint(at.Page))
		}
		return p, nil
	}})
	if end.Stop != Done || !slices.Equal(got, items("1", "3", "5")) {
		t.Errorf("%v, %+v; want every second page", got, end)
	}
}

func TestA64_L8_AnExpiredCursorKeepsWhatThereIsOrBeginsAgain(t *testing.T) {
	source := func() func(context.Context, Place) (Page[string], error) {
		expired := false
		return func(_ context.Context, at Place) (Page[string], error) {
			if at.Token == "2" && !expired {
				expired = true
				return Page[string]{}, fmt.Errorf("410 Gone: %w", ErrCursorExpired)
			}
			p := Page[string]{Items: items("a"+at.Token, "b"+at.Token), More: at.Page < 3}
			if p.More {
				p.Next = strconv.Itoa(at.Page + 1)
			}
			return p, nil
		}
	}
	got, end := walkAll(operation(t, time.Minute), Paging[string]{Fetch: source(), ID: self})
	if end.Stop != Failed || !errors.Is(end.Err, ErrCursorExpired) || len(got) != 4 || end.Next != (Place{Token: "2", Offset: 4, Page: 2}) {
		t.Errorf("%v, %+v; want the first two pages and ErrCursorExpired", got, end)
	}
	got, end = walkAll(operation(t, time.Minute), Paging[string]{Fetch: source(), ID: self, Restarts: 1})
	if want := items("a", "b", "a1", "b1", "a2", "b2", "a3", "b3"); !slices.Equal(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
	if end.Stop != Done || end.Restarts != 1 || end.Repeated != 4 || end.Pages != 7 {
		t.Errorf("%+v; want Done after 7 pages, one restart, 4 repeated", end)
	}
	// One that expires for ever ends too.
	_, end = walkAll(operation(t, time.Minute), Paging[string]{Restarts: 1 << 30, MaxPages: 50, Fetch: func(context.Context, Place) (Page[string], error) {
		return Page[string]{}, ErrCursorExpired
	}})
	if end.Pages != 50 || !errors.Is(end.Err, ErrCursorExpired) {
		t.Errorf("%+v; want ErrCursorExpired after 50 pages", end)
	}
}

func TestL8_ItEndsWithEnough(t *testing.T) {
	endless := func(_ context.Context, at Place) (Page[string], error) {
		return Page[string]{Items: items(fmt.Sprint(2*at.Page), fmt.Sprint(2*at.Page+1)), More: true}, nil
	}
	for name, test := range map[string]struct {
		p    Paging[string]
		want Outcome
	}{
		"pages":                     {Paging[string]{MaxPages: 3}, Outcome{Pages: 3, Rows: 6, Items: 6, Next: Place{Offset: 6, Page: 3}}},
		"items, to the page's end":  {Paging[string]{MaxItems: 4}, Outcome{Pages: 2, Rows: 4, Items: 4, Next: Place{Offset: 4, Page: 2}}},
		"items, in mid page":        {Paging[string]{MaxItems: 3, ID: self}, Outcome{Pages: 2, Rows: 4, Items: 3, Next: Place{Offset: 2, Page: 1}}},
		"pages, unless said: 1000":  {Paging[string]{}, Outcome{Pages: 1000, Rows: 2000, Items: 2000, Next: Place{Offset: 2000, Page: 1000}}},
		"negative is not unlimited": {Paging[string]{MaxPages: -1, MaxItems: -1}, Outcome{Pages: 1000, Rows: 2000, Items: 2000, Next: Place{Offset: 2000, Page: 1000}}},
	} {
		test.p.Fetch, test.want.Stop = endless, Enough
		if got, end := walkAll(operation(t, time.Minute), test.p); end != test.want || len(got) != end.Items {
			t.Errorf("%s: %d items, %+v; want %+v", name, len(got), end, test.want)
		}
	}
	var end Outcome
	for some := range Pages(operation(t, time.Minute), Paging[string]{Fetch: endless}, &end) {
		if len(some) != 2 {
			t.Errorf("a page of %v", some)
		}
		break
	}
	if end.Stop != Enough || end.Pages != 1 || end.Next != (Place{Offset: 2, Page: 1}) {
		t.Errorf("left early: %+v; want Enough, and the second page next", end)
	}
}

func TestJ3_L3_L8_NoPageBeginsThatTheBudgetCannotPayFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := Paging[string]{MinUseful: time.Second, Fetch: func(_ context.Context, at Place) (Page[string], error) {
			time.Sleep(time.Second)
			return Page[string]{Items: items("1"), More: true, Next: fmt.Sprint(at.Page)}, nil
		}}
		begin := time.Now()
		_, end := walkAll(operation(t, 4*time.Second), p) // after the third page exactly a second is left
		exactly(t, "the end", begin, 3*time.Second)
		var spent *budget.Exhausted
		if end.Stop != Deadline || !errors.As(end.Err, &spent) || end.Pages != 3 || end.Next.Token != "2" {
			t.Errorf("%+v; want Deadline after 3 pages", end)
		}
		p.MinUseful = 0
		begin = time.Now()
		_, end = walkAll(operation(t, 4*time.Second), p)
		exactly(t, "the end without MinUseful", begin, 4*time.Second)
		if end.Stop != Deadline || !errors.Is(end.Err, context.DeadlineExceeded) || end.Pages != 4 {
			t.Errorf("%+v; want Deadline after 4 pages", end)
		}
		if _, end = walkAll(context.Background(), p); end.Stop != Failed || !errors.Is(end.Err, ErrNoBudget) || end.Pages != 0 {
			t.Errorf("without a budget: %+v, want ErrNoBudget", end)
		}
	})
}

func TestJ13_J21_L8_WhyItStoppedIsTheLanesReason(t *testing.T) {
	for want, script := range map[Stop]func(r *http.Request, cancel func()) (*http.Response, error){
		RateLimited: func(r *http.Request, _ func()) (*http.Response, error) {
			return answer(r, 429, "", "Retry-After", "3600"), nil
		},
		Failed: func(r *http.Request, _ func()) (*http.Response, error) { return answer(r, 404, ""), nil },
		Deadline: func(r *http.Request, _ func()) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		Cancelled: func(r *http.Request, cancel func()) (*http.Response, error) {
			cancel()
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	} {
		if want == Cancelled {
			ctx, cancel := context.WithCancel(operation(t, time.Minute))
			_, end := walkAll(ctx, Paging[string]{Fetch: func(context.Context, Place) (Page[string], error) {
				cancel()
				return Page[string]{}, errors.New("cut off")
			}})
			if end.Stop != Cancelled {
				t.Errorf("an error after a cancel: %+v, want Cancelled", end)
			}
		}
		bubble(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(operation(t, time.Minute))
			defer cancel()
			client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
				if n == 0 {
					return answer(r, 200, "good"), nil
				}
				return script(r, cancel)
			})
			l := newLane(t, Options{Client: client})
			begin := time.Now()
			got, end := walkAll(ctx, Paging[string]{Fetch: func(ctx context.Context, at Place) (Page[string], error) {
				a, err := get(ctx, l)
				if err != nil {
					return Page[string]{}, err
				}
				return Page[string]{Items: items(string(a.Body)), More: true}, nil
			}})
			if end.Stop != want || !slices.Equal(got, items("good")) || end.Err == nil || end.Next.Page != 1 {
				t.Errorf("%v, %+v; want the first page and %q", got, end, want)
			}
			if want == RateLimited && end.RetryAt.Sub(begin) != time.Hour || want != RateLimited && !end.RetryAt.IsZero() {
				t.Errorf("%s: RetryAt is %v", want, end.RetryAt)
			}
		})
	}
}
