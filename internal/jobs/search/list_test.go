package search

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
	"layover/turnstile"
)

func TestAnswerIsNewestFirstAndUndatedLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: [][]posting.Job{jobs("alpha", "", 0, 4)}}
		s.pages[0][1].Posted = posting.Date{}
		s.pages[0][3].Posted = s.pages[0][2].Posted
		r := ask(t, engine(Options{}, s), time.Second, Query{})
		want := []string{"alpha//0", "alpha//2", "alpha//3", "alpha//1"}
		if got := ids(r); !slices.Equal(got, want) {
			t.Errorf("items %v, want %v", got, want)
		}
		if !r.Complete || r.Stop != Done || r.Cursor != "" || r.Left != 0 {
			t.Errorf("complete %v, stop %q, cursor %q, left %d; want complete, done, none, 0", r.Complete, r.Stop, r.Cursor, r.Left)
		}
	})
}

func TestSourcesAreReadSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var stands []*stand
		for _, name := range []string{"alpha", "beta", "gamma"} {
			stands = append(stands, &stand{name: name, delay: 300 * time.Millisecond, pages: paged(name, "", 2, 5)})
		}
		begun := time.Now()
		r := ask(t, engine(Options{}, stands...), time.Second, Query{Limit: 100})
		if took := time.Since(begun); took != 600*time.Millisecond || len(r.Items) != 30 || !r.Complete {
			t.Errorf("took %v for %d items, complete %v; want 600ms for 30, complete", took, len(r.Items), r.Complete)
		}
	})
}

func TestJ2_OneEndIsPassedDownAndPagesSurviveIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", delay: 350 * time.Millisecond, pages: paged("alpha", "", 40, 10)}
		e := engine(Options{}, s)
		begun := time.Now()
		r := ask(t, e, 2*time.Second, Query{Limit: 100})
		if took := time.Since(begun); took != 1800*time.Millisecond {
			t.Errorf("took %v, want 1.8s: the budget less a tenth", took)
		}
		if len(r.Items) != 50 || r.Stop != Deadline {
			t.Errorf("%d items, stop %q; want the 50 of 5 pages, deadline", len(r.Items), r.Stop)
		}
		end := begun.Add(1800 * time.Millisecond)
		for _, a := range s.asked {
			if !a.at.Before(end) {
				t.Errorf("page %d was asked for at %v, not before the end of work", a.page, a.at.Sub(begun))
			}
		}
	})
}

func TestJ1_J3_AnswerSaysWhyItEndedAndWhatIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fast := &stand{name: "alpha", pages: paged("alpha", "", 1, 3)}
		slow := &stand{name: "beta", delay: 700 * time.Millisecond, total: 90, pages: paged("beta", "", 9, 10)}
		r := ask(t, engine(Options{}, fast, slow), 2*time.Second, Query{Limit: 100})
		if r.Complete || r.Stop != Deadline || r.Cursor == "" {
			t.Errorf("complete %v, stop %q, cursor %q; want incomplete, deadline, a cursor", r.Complete, r.Stop, r.Cursor)
		}
		got := report(t, r, "beta")
		if got.Status != Some || got.Reason != board.Deadline || got.Pages != 2 || got.Received != 20 || got.Total != 90 || !got.More {
			t.Errorf("report %+v, want partial for the deadline after 2 pages, 20 of 90 jobs, more", got)
		}
		if got.Elapsed != 1800*time.Millisecond {
			t.Errorf("elapsed %v, want 1.8s", got.Elapsed)
		}
		if got := report(t, r, "alpha"); got.Status != board.OK || got.More || got.Elapsed != 0 {
			t.Errorf("report %+v, want ok without more", got)
		}
	})
}

func TestJ19_SlowIsNotDeadWhileBudgetRemains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "ashby", delay: 25 * time.Second, pages: paged("ashby", "", 1, 3)}
		e := engine(Options{}, s)
		if r := ask(t, e, 30*time.Second, Query{}); !r.Complete || len(r.Items) != 3 {
			t.Errorf("with 30s: complete %v, %d items; want all 3", r.Complete, len(r.Items))
		}
		r := ask(t, e, 20*time.Second, Query{})
		got := report(t, r, "ashby")
		if got.Status != board.Deadline || !strings.Contains(got.Detail, "slow rather than down") || r.Cursor == "" {
			t.Errorf("with 20s: report %+v, cursor %q; want deadline, not a verdict on the board, and a cursor", got, r.Cursor)
		}
	})
}

func TestSlowBoardCostsTheOthersNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := &stand{name: "slow", delay: time.Hour, pages: paged("slow", "", 1, 3)}
		fast := &stand{name: "fast", delay: 100 * time.Millisecond, pages: paged("fast", "", 10, 10)}
		r := ask(t, engine(Options{}, slow, fast), 2*time.Second, Query{Limit: 100})
		if len(r.Items) != 100 || report(t, r, "slow").Status != board.Deadline {
			t.Errorf("%d items, slow board %q; want 100, deadline", len(r.Items), report(t, r, "slow").Status)
		}
	})
}

// A board whose code does not look at its context must not hold the answer
// either; it is left behind and waited for at the end.
func TestBoardThatDoesNotListenDoesNotHoldTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deaf := &stand{name: "deaf", delay: 10 * time.Second, deaf: true, pages: paged("deaf", "", 1, 3)}
		fast := &stand{name: "fast", pages: paged("fast", "", 1, 10)}
		e := engine(Options{}, deaf, fast)
		begun := time.Now()
		r := ask(t, e, 2*time.Second, Query{})
		if took := time.Since(begun); took != 1900*time.Millisecond || len(r.Items) != 10 {
			t.Errorf("answered after %v with %d items, want 1.9s and 10", took, len(r.Items))
		}
		if got := report(t, r, "deaf"); got.Status != board.Deadline {
			t.Errorf("report %+v, want deadline", got)
		}
		e.Wait()
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("Wait returned after %v, want 10s: when the board was done", took)
		}
		if len(r.Items) != 10 {
			t.Error("what came late has changed the answer")
		}
	})
}

func TestFurtherPagesEndWhenThereIsEnough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", delay: 100 * time.Millisecond, pages: paged("alpha", "", 50, 10)}
		b := &stand{name: "beta", delay: 450 * time.Millisecond, pages: paged("beta", "", 50, 10)}
		begun := time.Now()
		r := ask(t, engine(Options{}, a, b), 10*time.Second, Query{Limit: 30})
		// alpha has 30 after its third page, but beta's first page is waited for.
		if took := time.Since(begun); took != 450*time.Millisecond {
			t.Errorf("took %v, want 450ms", took)
		}
		if got := a.requests(); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("alpha was asked for %v, want 3 pages", got)
		}
		if r.Stop != Limit || len(r.Items) != 30 || r.Left != 10 || r.Received != 40 {
			t.Errorf("stop %q, %d items, %d left of %d; want limit, 30, 10 of 40", r.Stop, len(r.Items), r.Left, r.Received)
		}
		if got := report(t, r, "alpha"); got.Status != board.OK || !got.More {
			t.Errorf("report %+v, want ok with more", got)
		}
	})
}

func TestPageUnderWayEndsWhenThereIsEnough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", pages: paged("alpha", "", 5, 10), slow: map[int]time.Duration{1: time.Minute}}
		b := &stand{name: "beta", delay: 200 * time.Millisecond, pages: paged("beta", "", 1, 10)}
		begun := time.Now()
		r := ask(t, engine(Options{}, a, b), 5*time.Minute, Query{Limit: 20})
		if took := time.Since(begun); took != 200*time.Millisecond || r.Stop != Limit {
			t.Errorf("took %v, stop %q; want 200ms, limit", took, r.Stop)
		}
		if got := report(t, r, "alpha"); got.Status != board.OK || !got.More || got.Pages != 1 || got.Reason != "" {
			t.Errorf("report %+v, want ok with one page and more", got)
		}
	})
}

func TestPageUnderWayIsKeptWhileAFirstPageIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", pages: paged("alpha", "", 5, 5), slow: map[int]time.Duration{1: 200 * time.Millisecond}}
		b := &stand{name: "beta", delay: 100 * time.Millisecond, pages: paged("beta", "", 1, 20)}
		c := &stand{name: "gamma", delay: 300 * time.Millisecond, pages: paged("gamma", "", 1, 5)}
		r := ask(t, engine(Options{}, a, b, c), time.Minute, Query{Limit: 20})
		// There is enough after 100ms; the answer waits for gamma, so alpha's second page costs nothing.
		if got := report(t, r, "alpha"); got.Pages != 2 || r.Stop != Limit {
			t.Errorf("stop %q, report %+v; want limit, and both pages", r.Stop, got)
		}
	})
}

func TestJ6_J9_FirstPageFailingIsAVerdictLaterIsPartial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := &stand{name: "first", pages: paged("first", "", 3, 5), fail: func(page, _ int) error { return trouble(board.Unavailable) }}
		later := &stand{name: "later", pages: paged("later", "", 3, 5), fail: func(page, _ int) error {
			if page == 1 {
				return trouble(board.Unavailable)
			}
			return nil
		}}
		r := ask(t, engine(Options{}, first, later), time.Second, Query{})
		if got := report(t, r, "first"); got.Status != board.Unavailable || got.Pages != 0 {
			t.Errorf("report %+v, want unavailable, not empty", got)
		}
		if got := report(t, r, "later"); got.Status != Some || got.Reason != board.Unavailable || got.Pages != 1 || got.Matched != 5 {
			t.Errorf("report %+v, want partial: one page of 5, then unavailable", got)
		}
		if len(r.Items) != 5 || r.Complete || r.Stop != Partial || r.Cursor == "" {
			t.Errorf("%d items, complete %v, stop %q, cursor %q; want 5, incomplete, partial, a cursor", len(r.Items), r.Complete, r.Stop, r.Cursor)
		}
	})
}

func TestJ8_ResumeAsksTheFailedPageAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 3, 5), fail: func(page, call int) error {
			if page == 1 && call == 1 {
				return trouble(board.Unavailable)
			}
			return nil
		}}
		seen, answers := follow(t, engine(Options{}, s), time.Second, Query{})
		wantOnce(t, seen, 15)
		if got := s.requests(); !slices.Equal(got, []int{0, 1, 1, 2}) {
			t.Errorf("pages asked for: %v, want page 0 once and page 1 twice", got)
		}
		if last := answers[len(answers)-1]; len(answers) != 2 || !last.Complete || report(t, last, "alpha").Status != board.OK || report(t, last, "alpha").Pages != 3 {
			t.Errorf("%d answers, the last %+v; want 2, the last complete with 3 pages", len(answers), last)
		}
	})
}

func TestJ7_BadRowOrSourceCostsOnlyItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := &stand{name: "broken", alter: func(int, *board.Page) { panic("index out of range") }}
		odd := &stand{name: "odd", pages: paged("odd", "", 1, 5), alter: func(_ int, p *board.Page) {
			p.Broken, p.Received = 2, p.Received+2
			p.Jobs[0].ID = "" // nobody could ask for it
		}}
		fine := &stand{name: "fine", pages: paged("fine", "", 1, 5)}
		r := ask(t, engine(Options{}, broken, odd, fine), time.Second, Query{})
		if len(r.Items) != 9 || r.Complete {
			t.Errorf("%d items, complete %v; want 9, incomplete", len(r.Items), r.Complete)
		}
		if got := report(t, r, "broken"); got.Status != board.Malformed || !strings.Contains(got.Detail, "index out of range") {
			t.Errorf("report %+v, want malformed", got)
		}
		if got := report(t, r, "odd"); got.Status != board.OK || got.Broken != 3 || got.Received != 7 || got.Matched != 4 {
			t.Errorf("report %+v, want 3 broken of 7 received, 4 matched", got)
		}
	})
}

func TestJ13_J21_RateLimitIsNamedAndSaysWhen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		retry := time.Now().Add(time.Hour)
		limited := &board.Trouble{Verdict: board.RateLimited, Detail: "429", RetryAt: retry}
		workday := &stand{name: "workday", pages: paged("workday", "", 4, 5), fail: func(page, _ int) error {
			if page == 2 {
				return limited
			}
			return nil
		}}
		workable := &stand{name: "workable", fail: func(int, int) error {
			return &board.Trouble{Verdict: board.RateLimited, Detail: "429", RetryAt: retry.Add(time.Hour)}
		}}
		r := ask(t, engine(Options{}, workday, workable), time.Second, Query{Limit: 50})
		if got := report(t, r, "workday"); got.Status != Some || got.Reason != board.RateLimited || !got.RetryAt.Equal(retry) || got.Matched != 10 {
			t.Errorf("report %+v, want partial, rate limited, with its time, 10 jobs kept", got)
		}
		if got := report(t, r, "workable"); got.Status != board.RateLimited || got.RetryAt.IsZero() {
			t.Errorf("report %+v, want rate limited with its time", got)
		}
		if r.Stop != RateLimited || !r.RetryAt.Equal(retry) || len(r.Items) != 10 || r.Complete {
			t.Errorf("stop %q, retry at %v, %d items, complete %v; want rate_limited, %v, 10, incomplete", r.Stop, r.RetryAt, len(r.Items), r.Complete, retry)
		}
	})
}

func TestJ22_J23_NothingHasSeveralNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		verdicts := []board.Verdict{board.UnknownBoard, board.EmptyOrUnknown, board.Blocked, board.Gone, board.NotVisible,
			board.Malformed, board.Unavailable}
		stands := []*stand{{name: "empty", pages: [][]posting.Job{nil}}}
		for _, v := range verdicts {
			stands = append(stands, &stand{name: string(v), fail: func(int, int) error { return trouble(v) }})
		}
		r := ask(t, engine(Options{}, stands...), time.Second, Query{})
		for _, v := range append(verdicts, board.Empty) {
			if got := report(t, r, string(v)); got.Status != v {
				t.Errorf("status %q, want %q", got.Status, v)
			}
		}
		if r.Complete {
			t.Error("complete, although boards gave nothing")
		}
	})
}

func TestEmptyBoardIsComplete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := ask(t, engine(Options{}, &stand{name: "empty", pages: [][]posting.Job{nil}}), time.Second, Query{})
		if !r.Complete || r.Stop != Done || r.Items == nil {
			t.Errorf("complete %v, stop %q, items %v; want complete, done, none but not nil", r.Complete, r.Stop, r.Items)
		}
	})
}

func TestVerdictThatStaysIsNotAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		unknown := &stand{name: "unknown", fail: func(int, int) error { return trouble(board.UnknownBoard) }}
		fine := &stand{name: "fine", pages: paged("fine", "", 1, 30)}
		seen, answers := follow(t, engine(Options{}, unknown, fine), time.Second, Query{Limit: 10})
		wantOnce(t, seen, 30)
		if got := len(unknown.requests()); got != 1 {
			t.Errorf("the unknown board was asked %d times, want once", got)
		}
		last := answers[len(answers)-1]
		if last.Complete || last.Stop != Done || report(t, last, "unknown").Status != board.UnknownBoard {
			t.Errorf("last answer: complete %v, stop %q, %+v; want incomplete, done, and the verdict kept", last.Complete, last.Stop, report(t, last, "unknown"))
		}
	})
}

func TestSourceThatFailsForeverIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", fail: func(int, int) error { return trouble(board.Blocked) }}
		_, answers := follow(t, engine(Options{}, s), time.Second, Query{})
		last := answers[len(answers)-1]
		if len(answers) != maxTries || last.Complete || report(t, last, "alpha").Status != board.Blocked {
			t.Errorf("%d answers, the last %+v; want %d, blocked", len(answers), last, maxTries)
		}
	})
}

func TestJ31_WrapAroundEndsTheSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// A cap of 3 pages; after them the board begins from the start.
		pages := paged("workday", "", 3, 20)
		s := &stand{name: "workday", total: 2000, pages: slices.Concat(pages, pages, pages)}
		for _, limit := range []int{7, 20, 100} {
			seen, answers := follow(t, engine(Options{}, s), time.Second, Query{Limit: limit})
			wantOnce(t, seen, 60)
			last := answers[len(answers)-1]
			got := report(t, last, "workday")
			if !got.Capped || last.Complete || got.Received != 80 || got.Total != 2000 {
				t.Errorf("limit %d: %+v, complete %v; want capped after 80 received (one page twice), of 2000", limit, got, last.Complete)
			}
		}
	})
}

func TestRepeatedTokenEndsTheSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 3, 5), alter: func(page int, p *board.Page) {
			if page == 2 {
				p.Next = "1"
			}
		}}
		r := ask(t, engine(Options{}, s), time.Second, Query{})
		if got := report(t, r, "alpha"); !got.Capped || got.Pages != 3 || r.Complete || r.Cursor != "" {
			t.Errorf("%+v, complete %v, cursor %q; want capped after 3 pages, no cursor", got, r.Complete, r.Cursor)
		}
	})
}

func TestShortAndEmptyPagesDoNotEndASource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pages := paged("himalayas", "", 4, 5)
		pages[1], pages[2] = nil, pages[2][:1]
		s := &stand{name: "himalayas", pages: pages}
		r := ask(t, engine(Options{}, s), time.Second, Query{})
		if len(r.Items) != 11 || !r.Complete {
			t.Errorf("%d items, complete %v; want 11, complete", len(r.Items), r.Complete)
		}
		s = &stand{name: "endless", alter: func(page int, p *board.Page) { p.Next = string(rune('1' + page)) }}
		r = ask(t, engine(Options{}, s), time.Second, Query{})
		if got := report(t, r, "endless"); got.Pages != maxBarren || !got.Capped {
			t.Errorf("%+v, want an end after %d pages without a job", got, maxBarren)
		}
	})
}

func TestJ32_J34_J35_CappedIsSaidExactly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		capped := &stand{name: "remotive", pages: paged("remotive", "", 2, 5), alter: func(page int, p *board.Page) { p.Capped = page == 0 }}
		whole := &stand{name: "whole", pages: paged("whole", "", 2, 5)}
		r := ask(t, engine(Options{}, capped, whole), time.Second, Query{Limit: 50})
		if got := report(t, r, "remotive"); !got.Capped || got.Status != board.OK {
			t.Errorf("%+v, want ok and capped", got)
		}
		if got := report(t, r, "whole"); got.Capped {
			t.Errorf("%+v, want not capped", got)
		}
		if r.Complete || r.Stop != Done || r.Cursor != "" {
			t.Errorf("complete %v, stop %q, cursor %q; want incomplete, done, none: no cursor gets what the board keeps", r.Complete, r.Stop, r.Cursor)
		}
	})
}

func TestJ33_WhatTheBoardSaysItHasIsReportedApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", total: 120, pages: paged("alpha", "", 2, 20), alter: func(page int, p *board.Page) {
			if page > 0 {
				p.Total = 0 // only the first page tells
			}
		}}
		quiet := &stand{name: "quiet", pages: paged("quiet", "", 1, 5)}
		r := ask(t, engine(Options{}, s, quiet), time.Second, Query{Limit: 100, Text: "engineer -39"})
		if got := report(t, r, "alpha"); got.Total != 120 || got.Received != 40 || got.Matched != 39 {
			t.Errorf("%+v, want 39 matched of 40 received of 120", got)
		}
		if got := report(t, r, "quiet"); got.Total != -1 {
			t.Errorf("total %d, want -1: not said", got.Total)
		}
	})
}

func TestPagesOfOneAnswerAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 10, 5)}
		e := engine(Options{MaxPages: 4}, s)
		r := ask(t, e, time.Second, Query{Limit: 100})
		if got := report(t, r, "alpha"); r.Stop != Pages || got.Status != Some || got.Pages != 4 || r.Cursor == "" {
			t.Errorf("stop %q, %+v; want pages after 4, with a cursor", r.Stop, got)
		}
		seen, answers := follow(t, e, time.Second, Query{Limit: 100})
		wantOnce(t, seen, 50)
		if !answers[len(answers)-1].Complete || len(answers) != 3 {
			t.Errorf("%d answers, want 3, the last complete", len(answers))
		}
	})
}

func TestJ61_SizeBoundsTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 5, 10)}
		e := engine(Options{Cost: func(Item) int { return 100 }}, s)
		r := ask(t, e, time.Second, Query{Limit: 50, Size: 450})
		if len(r.Items) != 4 || r.Stop != Size || r.Left != 6 || r.Cursor == "" {
			t.Errorf("%d items, stop %q, left %d, cursor %q; want 4, size, 6 of the one page that is enough, a cursor", len(r.Items), r.Stop, r.Left, r.Cursor)
		}
		if r := ask(t, e, time.Second, Query{Size: 7}); len(r.Items) != 1 {
			t.Errorf("%d items for a size that none fits; want one, or nobody would ever get on", len(r.Items))
		}
		seen, _ := follow(t, e, time.Second, Query{Limit: 50, Size: 450})
		wantOnce(t, seen, 50)
	})
}

func TestCancelEndsTheListingWithWhatThereIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fast := &stand{name: "fast", pages: paged("fast", "", 1, 5)}
		slow := &stand{name: "slow", delay: time.Minute, pages: paged("slow", "", 1, 5)}
		ctx, cancel := budget.For(t.Context(), 5*time.Minute)
		time.AfterFunc(time.Second, cancel)
		begun := time.Now()
		r, err := engine(Options{}, fast, slow).List(ctx, Query{}, nil)
		if took := time.Since(begun); err != nil || took != time.Second {
			t.Fatalf("returned after %v with %v, want 1s without error", took, err)
		}
		if r.Stop != Cancelled || len(r.Items) != 5 || report(t, r, "slow").Status != board.Cancelled {
			t.Errorf("stop %q, %d items, %+v; want cancelled, 5", r.Stop, len(r.Items), report(t, r, "slow"))
		}
	})
}

func TestBudgetThatIsOverAsksNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 1, 5)}
		r := ask(t, engine(Options{}, s), 0, Query{})
		if len(s.requests()) != 0 || r.Stop != Deadline || r.Cursor == "" || report(t, r, "alpha").Status != board.Deadline {
			t.Errorf("%d requests, stop %q, %+v; want none, deadline", len(s.requests()), r.Stop, r.Reports)
		}
	})
}

func TestListingNeedsABudget(t *testing.T) {
	_, err := engine(Options{}, &stand{name: "alpha"}).List(t.Context(), Query{}, nil)
	if !errors.Is(err, errNoBudget) {
		t.Errorf("List without a budget: %v, want %v", err, errNoBudget)
	}
}

func TestOneClaimServesTheWholeOperation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		claims := make(chan turnstile.Claim, 100)
		b := board.Board{Name: "alpha", Page: func(ctx context.Context, _ board.Fetch, _ board.Listing, token string) (board.Page, error) {
			claim, ok := turnstile.ClaimFrom(ctx)
			if !ok {
				t.Error("a request without a claim")
			}
			claims <- claim
			time.Sleep(10 * time.Millisecond)
			return board.Page{Next: token + "x", Jobs: jobs("alpha", "", len(token), 1), Received: 1}, nil
		}}
		c := b
		c.Name = "beta"
		e := New([]*board.Board{&b, &c}, func(*board.Board) board.Fetch { return nil }, Options{MaxPages: 3})
		ask(t, e, time.Second, Query{})
		first := <-claims
		for range len(claims) {
			if claim := <-claims; claim != first {
				t.Errorf("claims %v and %v, want one", first, claim)
			}
		}
	})
}

func TestProgressTellsRealCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", delay: 100 * time.Millisecond, pages: paged("alpha", "", 2, 5)}
		b := &stand{name: "beta", delay: 150 * time.Millisecond, pages: paged("beta", "", 1, 5)}
		ctx, cancel := budget.For(t.Context(), time.Second)
		defer cancel()
		var told []Progress
		c := &stand{name: "gamma", delay: 50 * time.Millisecond, fail: func(int, int) error { return trouble(board.Blocked) }}
		if _, err := engine(Options{}, a, b, c).List(ctx, Query{Text: "engineer -0"}, func(p Progress) { told = append(told, p) }); err != nil {
			t.Fatal(err)
		}
		want := []Progress{
			{Sources: 3, Answered: 1},
			{Sources: 3, Answered: 2, Pages: 1, Received: 5, Matched: 4},
			{Sources: 3, Answered: 3, Pages: 2, Received: 10, Matched: 8},
			{Sources: 3, Answered: 3, Pages: 3, Received: 15, Matched: 13},
		}
		if got := slices.Compact(told); !slices.Equal(got, want) {
			t.Errorf("told %+v, want %+v", got, want)
		}
	})
}

func TestLedgerHasAPhaseForEachBoard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", company: true, delay: 100 * time.Millisecond, pages: paged("alpha", "x", 2, 5)}
		b := &stand{name: "beta", delay: 150 * time.Millisecond, pages: paged("beta", "", 1, 5)}
		r := ask(t, engine(Options{}, a, b), time.Second, Query{Sources: []string{"alpha:x", "alpha:y", "beta"}})
		elapsed := make(map[string]time.Duration)
		for _, p := range r.Ledger.Phases {
			elapsed[p.Path] = p.Elapsed
		}
		if len(elapsed) != 2 || elapsed["alpha"] != 200*time.Millisecond || elapsed["beta"] != 150*time.Millisecond {
			t.Errorf("phases %v, want 200ms of alpha, whatever its companies, and 150ms of beta", elapsed)
		}
	})
}

func TestNothingIsLeftRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "slow", delay: time.Hour}
		ask(t, engine(Options{}, s), time.Second, Query{})
		synctest.Wait() // the bubble fails if a goroutine is left blocked
	})
}

func TestRateLimitedSourceIsNotGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 1, 5), fail: func(_, call int) error {
			if call <= 2*maxTries {
				return trouble(board.RateLimited)
			}
			return nil
		}}
		seen, answers := follow(t, engine(Options{}, s), time.Second, Query{})
		wantOnce(t, seen, 5)
		if len(answers) != 2*maxTries+1 {
			t.Errorf("%d answers, want %d", len(answers), 2*maxTries+1)
		}
	})
}

func TestVerdictOfALaterPageIsNotTheSources(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 3, 5), fail: func(page, call int) error {
			if page == 1 && call == 1 {
				return trouble(board.UnknownBoard) // it was known a moment ago
			}
			return nil
		}}
		e := engine(Options{}, s)
		r := ask(t, e, time.Second, Query{})
		if got := report(t, r, "alpha"); got.Status != Some || got.Reason != board.UnknownBoard || r.Cursor == "" {
			t.Errorf("%+v, cursor %q; want partial, and a cursor", got, r.Cursor)
		}
		if r = ask(t, e, time.Second, Query{Cursor: r.Cursor}); len(r.Items) != 10 || !r.Complete {
			t.Errorf("%d items, complete %v; want the other 10, complete", len(r.Items), r.Complete)
		}
	})
}

// A page that is not needed any more may still bring news about the board.
func TestRateLimitOfAPageThatIsNotNeededIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := paged("alpha", "", 2, 10)
		alpha := &board.Board{Name: "alpha", Page: func(ctx context.Context, _ board.Fetch, _ board.Listing, token string) (board.Page, error) {
			if token == "" {
				return board.Page{Jobs: all[0], Received: 10, Next: "1"}, nil
			}
			<-ctx.Done()
			return board.Page{}, trouble(board.RateLimited)
		}}
		beta := (&stand{name: "beta", delay: time.Second, pages: paged("beta", "", 1, 10)}).board()
		e := New([]*board.Board{alpha, beta}, func(*board.Board) board.Fetch { return nil }, Options{})
		r := ask(t, e, time.Minute, Query{Limit: 20})
		if got := report(t, r, "alpha"); got.Status != Some || got.Reason != board.RateLimited {
			t.Errorf("%+v, want partial, rate limited", got)
		}
	})
}

func TestRowsThatAreNoneAreNotMissed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for total, complete := range map[int]bool{0: false, 5: true, 7: false} { // 0: it does not say
			s := &stand{name: "workday", total: total, pages: paged("workday", "", 1, 5), alter: func(_ int, p *board.Page) {
				p.Broken, p.Received = 2, 7
			}}
			if r := ask(t, engine(Options{}, s), time.Second, Query{}); r.Complete != complete {
				t.Errorf("5 jobs and 2 rows that cannot be read, of %d: complete %v", total, r.Complete)
			}
		}
	})
}

func TestFilteringEndsWithTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 1, 100)}
		e := engine(Options{Cost: func(Item) int { time.Sleep(100 * time.Millisecond); return 1 }}, s)
		begun := time.Now()
		r := ask(t, e, 2*time.Second, Query{Size: 1000})
		e.Wait()
		if took := time.Since(begun); took > 1900*time.Millisecond || r.Stop != Deadline || r.Cursor == "" {
			t.Errorf("over after %v, stop %q, cursor %q; want at once after 1.8s, deadline, a cursor", took, r.Stop, r.Cursor)
		}
	})
}
