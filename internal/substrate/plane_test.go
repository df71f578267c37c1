package substrate_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/internal/substrate"
	"layover/internal/substrate/controlplane"
)

func TestPlanePassesTheSuite(t *testing.T) {
	planetest.RunInBubbles(t, func(t *testing.T) *planetest.Rig {
		const takes = 50 * time.Millisecond
		s := newServer(2, 4, takes)
		s.Inject(controlplane.Fault{Actor: name(3), Times: -1, Code: codes.Internal, Message: "a crash loop"})
		return &planetest.Rig{
			Plane:   newPlane(t, s, substrate.Options{Interval: 10 * time.Millisecond}),
			Workers: 2, Actors: []string{name(0), name(1), name(2)}, Broken: name(3), WakeTakes: takes,
			Wakes: func(actor string) uint64 { return uint64(s.Resumes(actor)) },
			Sleep: func(actor string) { s.Suspend(actor) },
			Reach: func(target router.Target) error {
				if target.Addr != "10.0.1.1:80" && target.Addr != "10.0.1.2:80" {
					return fmt.Errorf("%s is none of the workers", target.Addr)
				}
				return nil
			},
		}
	})
}
