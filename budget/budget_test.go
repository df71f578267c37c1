package budget

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestB8ExhaustedIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Second)
		defer cancel()
		ctx, _ = Phase(ctx, "wake")
		_, end := Phase(ctx, "line")
		<-ctx.Done()
		end()
		var e *Exhausted
		if !errors.As(context.Cause(ctx), &e) {
			t.Fatal(context.Cause(ctx))
		}
		t.Log(e)
	})
}
