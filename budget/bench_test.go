package budget

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// BenchmarkOperation compares what an operation costs with the plain standard context that it would have without a budget.
func BenchmarkOperation(b *testing.B) {
	parent := b.Context()
	b.Run("naive/WithTimeout", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithTimeout(parent, time.Minute)
			cancel()
		}
	})
	b.Run("For", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := For(parent, time.Minute)
			cancel()
		}
	})
	b.Run("For+From+Phase", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := For(parent, time.Minute)
			From(ctx).Phase("line")()
			cancel()
		}
	})
	b.Run("For+ForInside", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := For(parent, time.Minute)
			_, inner := For(ctx, time.Hour)
			inner()
			cancel()
		}
	})
}

// BenchmarkEdge is the cost of what is done often within one operation.
func BenchmarkEdge(b *testing.B) {
	ctx, cancel := For(b.Context(), time.Hour)
	defer cancel()
	nested, cancelNested := For(ctx, time.Minute)
	defer cancelNested()
	b.Run("naive/time.Until", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			deadline, _ := ctx.Deadline()
			_ = time.Until(deadline)
		}
	})
	b.Run("Remaining", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = From(ctx).Remaining()
		}
	})
	b.Run("Phase", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			From(ctx).Phase("line")()
		}
	})
	b.Run("Phase/nested", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			From(nested).Phase("line")()
		}
	})
	b.Run("Phase/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				From(ctx).Phase("line")()
			}
		})
	})
	b.Run("Ledger", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = From(ctx).Ledger()
		}
	})
	b.Run("WriteHeaders", func(b *testing.B) {
		h := map[string][]string{"Grpc-Timeout": {"1S"}}
		b.ReportAllocs()
		for b.Loop() {
			if err := WriteHeaders(ctx, h); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ReadHeaders", func(b *testing.B) {
		h := map[string][]string{"Operation-Timeout": {"2500ms"}}
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := ReadHeaders(h); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkParked is the heap that 10,000 operations hold while they wait, per operation.
func BenchmarkParked(b *testing.B) {
	const operations = 10_000
	for _, way := range []struct {
		name  string
		begin func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"naive/WithTimeout", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		}},
		{"For", func(ctx context.Context) (context.Context, context.CancelFunc) { return For(ctx, time.Hour) }},
		{"For+Phase", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := For(ctx, time.Hour)
			From(ctx).Phase("line")
			return ctx, cancel
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			type held struct {
				ctx    context.Context
				cancel context.CancelFunc
			}
			all := make([]held, operations)
			var before, after runtime.MemStats
			for b.Loop() {
				clear(all)
				settle()
				runtime.ReadMemStats(&before)
				for i := range all {
					all[i].ctx, all[i].cancel = way.begin(context.Background())
				}
				settle()
				runtime.ReadMemStats(&after)
				for _, h := range all {
					h.cancel()
				}
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/operations, "B/parked")
			runtime.KeepAlive(all)
		})
	}
}

// settle lets the runtime drop stopped timers, which keep what they would have called, and then collects.
func settle() {
	for range 4 {
		<-time.After(time.Millisecond)
		runtime.GC()
	}
}
