package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"layover/turnstile"
)

// How many passes for 4 connections? pass/unit is how long a pass is held for each use, over how long its connection is: as many
// passes as connections times that keep the connections busy. What is more stands in the pool's own line, which knows no
// claims: pool-wait is the time a use spends there.
//
//	go test -run '^$' -bench Passes -benchtime 2s .
func BenchmarkPassesOverConnections(b *testing.B) {
	const size = 4
	for _, query := range []string{"select 1", "select pg_sleep(0.002)"} {
		for _, passes := range []int{4, 5, 6, 8} {
			b.Run(fmt.Sprintf("%s/%d", query, passes), func(b *testing.B) {
				r := newRig(b, size)
				r.ts.Resize(passes)
				var passHeld, unitHeld, poolWait atomic.Int64
				b.SetParallelism(16) // 32 workers on two processors
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						pass, ok := r.ts.WaitTurn(r.ctx, turnstile.NewClaim(0))
						if !ok {
							b.Error("no turn")
							return
						}
						granted := time.Now()
						conn, err := r.pool.Acquire(r.ctx)
						if err != nil {
							b.Error(err)
							return
						}
						acquired := time.Now()
						if _, err := conn.Exec(r.ctx, query); err != nil {
							b.Error(err)
						}
						conn.Release()
						released := time.Now()
						pass.Return()
						passHeld.Add(int64(time.Since(granted)))
						unitHeld.Add(int64(released.Sub(acquired)))
						poolWait.Add(int64(acquired.Sub(granted)))
					}
				})
				b.ReportMetric(float64(passHeld.Load()-poolWait.Load())/float64(unitHeld.Load()), "pass/unit")
				b.ReportMetric(float64(poolWait.Load())/float64(b.N)/1e3, "pool-wait-us")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "uses/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
