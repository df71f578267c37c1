package search

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

func get(t *testing.T, e *Engine, d time.Duration, id string) Posting {
	t.Helper()
	ctx, cancel := budget.For(t.Context(), d)
	defer cancel()
	p, err := e.Get(ctx, id, 0)
	if err != nil {
		t.Fatalf("Get(%q): %v", id, err)
	}
	return p
}

// getter is an engine of one board, "lever", that gets as f does.
func getter(f func(ctx context.Context, c board.Company, local string) (posting.Job, error)) *Engine {
	b := (&stand{name: "lever", company: true}).board()
	b.Get = func(ctx context.Context, _ board.Fetch, c board.Company, local string) (posting.Job, error) {
		return f(ctx, c, local)
	}
	return New([]*board.Board{b}, func(*board.Board) board.Fetch { return nil }, Options{})
}

func TestJ5_EachItemOfAListCanBeGot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", company: true, pages: paged("alpha", "açme/x y", 3, 5)}
		b := &stand{name: "beta", pages: paged("beta", "", 2, 5)}
		e := engine(Options{}, a, b)
		r := ask(t, e, time.Second, Query{Sources: []string{"alpha:açme/x y", "beta"}, Limit: 100})
		if len(r.Items) != 25 {
			t.Fatalf("%d items, want 25", len(r.Items))
		}
		for _, it := range r.Items {
			if p := get(t, e, time.Second, it.ID); p.Status != board.OK || p.Job == nil || p.Job.ID != it.ID || p.Job.Title != it.Title {
				t.Errorf("Get(%q): %+v, want the same job", it.ID, p)
			}
		}
	})
}

func TestJ40_J41_DescriptionIsMarkdownOrNotThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for html, want := range map[string]string{
			"<p>Build <b>things</b></p><ul><li>Go</li></ul>": "Build **things**\n\n- Go",
			"":                   "",
			"  <p> &nbsp; </p> ": "",
			"<img src='x'>":      "",
		} {
			e := getter(func(_ context.Context, c board.Company, local string) (posting.Job, error) {
				return posting.Job{ID: posting.ID("lever", c.Slug, local), HTML: html}, nil
			})
			p := get(t, e, time.Second, "lever/acme/7")
			if p.Text != want || p.HasText != (want != "") || p.Cut {
				t.Errorf("%q: text %q, has text %v, cut %v; want %q", html, p.Text, p.HasText, p.Cut, want)
			}
		}
	})
}

func TestLongDescriptionIsCutAndSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := getter(func(context.Context, board.Company, string) (posting.Job, error) {
			return posting.Job{ID: "lever/acme/7", HTML: "<p>" + strings.Repeat("one two three. ", 1000) + "</p>"}, nil
		})
		ctx, cancel := budget.For(t.Context(), time.Second)
		defer cancel()
		p, err := e.Get(ctx, "lever/acme/7", 500)
		if err != nil || !p.Cut || len(p.Text) > 500 || len(p.Text) < 200 {
			t.Errorf("%d bytes, cut %v, %v; want at most 500, cut", len(p.Text), p.Cut, err)
		}
	})
}

func TestVerdictsOfGetAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		retry := time.Now().Add(time.Hour)
		for _, v := range []board.Verdict{board.NotVisible, board.Gone, board.RateLimited, board.Blocked, board.UnknownBoard, board.Malformed} {
			e := getter(func(context.Context, board.Company, string) (posting.Job, error) {
				return posting.Job{}, &board.Trouble{Verdict: v, Detail: "seen", Page: "https://jobs.example", RetryAt: retry}
			})
			p := get(t, e, time.Second, "lever/acme/7")
			if p.Status != v || p.Job != nil || p.Detail != "seen" || p.Page == "" || !p.RetryAt.Equal(retry) || p.ID != "lever/acme/7" {
				t.Errorf("%s: %+v", v, p)
			}
		}
		e := getter(func(context.Context, board.Company, string) (posting.Job, error) { panic("nil map") })
		if p := get(t, e, time.Second, "lever/acme/7"); p.Status != board.Malformed {
			t.Errorf("a panic gave %+v, want malformed", p)
		}
	})
}

func TestGetEndsWithItsBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hung := func(ctx context.Context, _ board.Company, _ string) (posting.Job, error) {
			<-ctx.Done()
			return posting.Job{}, ctx.Err()
		}
		deaf := func(context.Context, board.Company, string) (posting.Job, error) {
			time.Sleep(time.Minute)
			return posting.Job{}, nil
		}
		begun := time.Now()
		if p := get(t, getter(hung), time.Second, "lever/acme/7"); p.Status != board.Deadline || time.Since(begun) != 900*time.Millisecond {
			t.Errorf("%+v after %v, want deadline after 900ms", p, time.Since(begun))
		}
		begun = time.Now()
		e := getter(deaf)
		if p := get(t, e, time.Second, "lever/acme/7"); p.Status != board.Deadline || time.Since(begun) != 950*time.Millisecond {
			t.Errorf("%+v after %v, want deadline after 950ms", p, time.Since(begun))
		}
		e.Wait()
		ctx, cancel := budget.For(t.Context(), time.Hour)
		time.AfterFunc(time.Second, cancel)
		if p, err := getter(hung).Get(ctx, "lever/acme/7", 0); p.Status != board.Cancelled || err != nil {
			t.Errorf("%+v, %v; want cancelled", p, err)
		}
	})
}

func TestBoardsWithoutGetAreLookedThrough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "ashby", company: true, pages: paged("ashby", "acme", 4, 5)}
		e := engine(Options{}, s)
		if p := get(t, e, time.Second, "ashby/acme/12"); p.Status != board.OK || !slices.Equal(s.requests(), []int{0, 1, 2}) {
			t.Errorf("%+v after pages %v, want the job after three pages", p, s.requests())
		}
		if p := get(t, e, time.Second, "ashby/acme/99"); p.Status != board.NotVisible || !strings.Contains(p.Detail, "not prove") {
			t.Errorf("%+v, want not_visible, inconclusive", p)
		}
		s.alter = func(_ int, p *board.Page) { p.Next = "0" }
		if p := get(t, e, time.Second, "ashby/acme/99"); p.Status != board.NotVisible {
			t.Errorf("%+v, want an end although the pages go round", p)
		}
	})
}

func TestBadIdsAreRefused(t *testing.T) {
	e := engine(Options{}, &stand{name: "lever", company: true}, &stand{name: "remotive"})
	ctx, cancel := budget.For(t.Context(), time.Second)
	defer cancel()
	for _, id := range []string{"", "lever", "lever/acme", "lever/acme/", "monster/acme/7", "remotive/acme/7", "lever/bad slug/7",
		"lever/%zz/7", "https://jobs.lever.co/acme/7", strings.Repeat("lever/acme/", 1000)} {
		_, err := e.Get(ctx, id, 0)
		var bad *Invalid
		if !errors.As(err, &bad) || bad.Field != "id" || len(err.Error()) > 600 {
			t.Errorf("Get(%q): %v, want an *Invalid for id", id, err)
		}
	}
	if _, err := e.Get(ctx, "remotive//7", -1); err == nil {
		t.Error("a negative limit was not refused")
	}
	if _, err := e.Get(t.Context(), "remotive//7", 0); !errors.Is(err, errNoBudget) {
		t.Errorf("Get without a budget: %v", err)
	}
}
