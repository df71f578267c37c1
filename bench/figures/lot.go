package main

import (
	"layover/parking"
)

// fullLot compares requests to an awake actor while the lot is full, and with
// a lot of 0, with the same requests while the lot is empty.
func fullLot(r *report) error {
	const (
		pairs    = 31
		requests = 700
		spots    = 200
	)
	actor := hello()
	defer actor.Close()
	var rigs []*rig
	for _, lot := range []*parking.Lot{parking.NewLot(parking.Unlimited), parking.NewLot(spots), parking.NewLot(0)} {
		g, err := newRig(actor.Listener.Addr().String(), lot)
		if err != nil {
			return err
		}
		defer g.close()
		rigs = append(rigs, g)
	}
	empty, full, zero := rigs[0], rigs[1], rigs[2]
	full.park(spots)
	clients := make(map[*rig]*client)
	for _, g := range rigs {
		clients[g] = newClient(g.url, awakeHost)
		if _, err := clients[g].measure(requests); err != nil { // warm up
			return err
		}
	}
	var fullP50, fullP99, zeroP50, zeroP99 ratios
	for range pairs {
		base, err := clients[empty].measure(requests)
		if err != nil {
			return err
		}
		loaded, err := clients[full].measure(requests)
		if err != nil {
			return err
		}
		none, err := clients[zero].measure(requests)
		if err != nil {
			return err
		}
		ratio := func(s samples, q float64) float64 { return float64(s.quantile(q)) / float64(base.quantile(q)) }
		fullP50, fullP99 = append(fullP50, ratio(loaded, 0.5)), append(fullP99, ratio(loaded, 0.99))
		zeroP50, zeroP99 = append(zeroP50, ratio(none, 0.5)), append(zeroP99, ratio(none, 0.99))
	}
	const total = pairs * requests
	r.figure("lot full: requests to the awake actor that were shed, of %d", float64(full.router.Lot().Snapshot().Rejected), atMost, 0, total)
	r.ratio("lot full: p50, against an empty lot", fullP50, atMost, 1.10)
	r.ratio("lot full: p99, against an empty lot", fullP99, atMost, 1.10)
	r.figure("lot 0: requests to the awake actor that were shed, of %d", float64(zero.router.Lot().Snapshot().Rejected), atMost, 0, total)
	r.ratio("lot 0: p50, against an empty lot", zeroP50, atMost, 1.10)
	r.ratio("lot 0: p99, against an empty lot", zeroP99, atMost, 1.10)
	return nil
}
