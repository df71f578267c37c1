package extproc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"layover/internal/extproc"
	"layover/internal/router"
)

// trusting is a rig whose trusted peers choose bands and actors, and a request
// to it, of such a peer or of another.
func trusting(t *testing.T, trusted bool, h headers) (*rig, *held) {
	x := newRig(t, setup{route: router.Route{Name: "r", Budget: 5 * time.Second, MaxBudget: 5 * time.Second, Band: 7}})
	x.server.SetTrust(extproc.Trust{BandHeader: "X-Band", ActorHeader: "X-Actor",
		Direct: router.Route{Name: "direct", Budget: 3 * time.Second, MaxBudget: 3 * time.Second, Band: 5}})
	ctx := context.Background()
	if trusted {
		ctx = metadata.AppendToOutgoingContext(ctx, extproc.PeerMetadata, extproc.PeerTrusted)
	}
	stream, err := x.client.Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q := &held{t: t, stream: stream, since: time.Now()}
	q.send(h.message())
	return x, q
}

func TestATrustedPeerChoosesTheBand(t *testing.T) {
	for _, tc := range []struct {
		trusted bool
		said    string
		want    int
	}{
		{true, "3", 3}, {true, "-1", 0}, {true, "100", 99}, {true, "soon", 7}, {true, "", 7},
		{false, "3", 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			x, q := trusting(t, tc.trusted, get(actorA, "x-band", tc.said))
			q.mustRoute(time.Second)
			if rec := x.last(); rec.Band != tc.want || rec.Route != "r" {
				t.Errorf("trusted %v, X-Band %q: band %d of route %s, want %d of r", tc.trusted, tc.said, rec.Band, rec.Route, tc.want)
			}
		})
	}
}

func TestR53_ATrustedPeerOfEnvoyNamesTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := trusting(t, true, get("nobody", "x-actor", actorB))
		if got := q.mustRoute(time.Second); got.local != actorB {
			t.Errorf("it goes to %s, want %s", got.local, actorB)
		}
		if rec := x.last(); rec.Route != "direct" || rec.Band != 5 || rec.Actor != actorB {
			t.Errorf("recorded as %+v", rec)
		}
	})
}

func TestR53_AStrangerOfEnvoyNamesNoActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A client's header of that name is no metadata of the stream.
		_, q := trusting(t, false, get(actorA, "x-actor", actorB, extproc.PeerMetadata, extproc.PeerTrusted))
		if got := q.mustRoute(time.Second); got.local != actorA {
			t.Errorf("it goes to %s, want %s", got.local, actorA)
		}
	})
}
