package lane

import (
	"context"
	"fmt"
	"sync"
)

type allowanceKey struct{}

// allowance is what an operation may send, through whatever lanes and layers. A nil one is unlimited.
type allowance struct {
	outer             *allowance
	mu                sync.Mutex // taken inside Lane.mu or alone, never inside another allowance's
	attempts, retries int
}

// Allow is ctx for an operation that may send attempts requests in all, through whatever lanes and layers, loops around Do
// included, of which Do may have repeated retries. Inside another Allow both hold. A number below 0 counts as 0. Without it an
// operation is limited by the lanes' own options alone.
func Allow(ctx context.Context, attempts, retries int) context.Context {
	return context.WithValue(ctx, allowanceKey{}, &allowance{outer: allowanceOf(ctx), attempts: max(attempts, 0), retries: max(retries, 0)})
}

func allowanceOf(ctx context.Context) *allowance {
	a, _ := ctx.Value(allowanceKey{}).(*allowance)
	return a
}

// take takes one attempt, from all allowances or from none.
func (a *allowance) take(repeat bool) error {
	if a == nil {
		return nil
	}
	if err := a.takeOwn(repeat); err != nil {
		return err
	}
	if err := a.outer.take(repeat); err != nil {
		a.giveOwn(repeat)
		return err
	}
	return nil
}

func (a *allowance) takeOwn(repeat bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.attempts <= 0 {
		return fmt.Errorf("%w: the operation has sent all that it may", ErrAttempts)
	}
	if repeat && a.retries <= 0 {
		return fmt.Errorf("%w: the operation has repeated all that it may", ErrAttempts)
	}
	a.attempts--
	if repeat {
		a.retries--
	}
	return nil
}

func (a *allowance) give(repeat bool) {
	for ; a != nil; a = a.outer {
		a.giveOwn(repeat)
	}
}

func (a *allowance) giveOwn(repeat bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempts++
	if repeat {
		a.retries++
	}
}

// permit takes what one attempt costs, from whoever limits them, before anything is waited for.
func (l *Lane) permit(c *call) error {
	l.mu.Lock()
	sent := c.attempts
	l.mu.Unlock()
	repeat := sent > 0
	if sent >= l.o.Attempts {
		return fmt.Errorf("%w: sent %d times", ErrAttempts, sent)
	}
	if err := c.allowance.take(repeat); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if repeat {
		if l.tokens < 1 {
			l.stats.Refused++
			c.allowance.give(repeat)
			return fmt.Errorf("%w: too many in a row have failed here", ErrAttempts)
		}
		l.tokens--
	}
	c.paid = true
	return nil
}

// refund gives back what was permitted and has not begun.
func (l *Lane) refund(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.paid {
		return
	}
	c.paid = false
	if c.attempts > 0 {
		l.tokens = min(l.tokens+1, float64(l.o.Retries))
	}
	c.allowance.give(c.attempts > 0)
}
