//go:build unix

package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"layover/internal/router"
	"layover/internal/router/planetest"
)

func TestPlanePassesTheSuite(t *testing.T) {
	t.Parallel() // it mostly waits
	planetest.Run(t, func(t *testing.T) *planetest.Rig {
		p := mustPlane(t, 2, acting("a", "server"), acting("b", "server"), acting("c", "server"), acting("broken", "quitter"))
		return &planetest.Rig{
			Plane: p, Workers: 2, Actors: []string{"a", "b", "c"}, Broken: "broken", KnowsState: true,
			Wakes: func(name string) uint64 { return snapshotOf(t, p, name).Wakes },
			Sleep: func(name string) {
				if err := p.Sleep(context.Background(), name); err != nil {
					t.Error(err)
				}
			},
			Reach: func(target router.Target) error {
				_, err := get(target, "/")
				return err
			},
		}
	})
}

func snapshotOf(t *testing.T, p *Plane, name string) router.ActorSnapshot {
	t.Helper()
	for _, a := range p.Snapshot().Actors {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no actor %q in the snapshot", name)
	return router.ActorSnapshot{}
}

func get(target router.Target, path string) (string, error) {
	resp, err := http.Get("http://" + target.Addr + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return string(body), err
}
