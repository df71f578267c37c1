package extproc

import (
	"slices"
	"strconv"

	"google.golang.org/grpc/metadata"

	"layover/internal/router"
)

// How a stream says that its request is of a trusted peer. Only Envoy writes a
// stream's metadata; a client has no part in it.
const (
	PeerMetadata = "layover-peer"
	PeerTrusted  = "trusted"
)

// The bands that there are, for routes and peers alike.
const (
	firstBand = 0
	lastBand  = 99
)

// called returns the name of the request: by the headers of a trusted peer, else
// by the Namer.
func (c *call) called() (name Name, err error) {
	t := c.server.trust.Load()
	if *t == (Trust{}) || !slices.Contains(metadata.ValueFromIncomingContext(c.stream.Context(), PeerMetadata), PeerTrusted) {
		return c.server.name(&c.req)
	}
	actor := ""
	if t.ActorHeader != "" {
		actor = c.req.Header(t.ActorHeader)
	}
	if actor != "" {
		name = Name{Route: t.Direct, Actor: actor}
	} else {
		name, err = c.server.name(&c.req)
	}
	name.Route.Band = t.band(&c.req, name.Route)
	return name, err
}

func (t *Trust) band(req *Request, of router.Route) int {
	if t.BandHeader == "" {
		return of.Band
	}
	band, err := strconv.Atoi(req.Header(t.BandHeader))
	if err != nil {
		return of.Band
	}
	return min(max(band, firstBand), lastBand)
}
