//go:build unix

package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The range from which ports are chosen: below the one from which the kernel
// gives ports to outgoing connections, which could take one between our look
// and the actor's bind.
const (
	lowestPort  = 10240
	portsEnough = 1000 // a smaller range than this is not used
	portTries   = 200
)

// ports hands out free ports. The zero value is ready.
type ports struct {
	mu   sync.Mutex
	used map[int]struct{}
}

// take returns a port of 127.0.0.1 that nobody listens at, and that no other
// actor has been told.
func (p *ports) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	below := firstEphemeralPort()
	var err error
	for range portTries {
		port := 0
		if below-lowestPort >= portsEnough {
			port = lowestPort + rand.IntN(below-lowestPort)
		}
		if _, mine := p.used[port]; mine {
			continue
		}
		if port, err = probePort(port); err != nil {
			continue
		}
		if _, mine := p.used[port]; mine {
			continue
		}
		if p.used == nil {
			p.used = make(map[int]struct{})
		}
		p.used[port] = struct{}{}
		return port, nil
	}
	return 0, errors.Join(errors.New("no free port found"), err)
}

func (p *ports) release(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, port)
}

// probePort returns port, or any port for 0, if nobody listens there.
func probePort(port int) (int, error) {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
