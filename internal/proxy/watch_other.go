//go:build !linux

package proxy

import (
	"log/slog"
	"net"
)

// watch does nothing here: a client that leaves is noticed by net/http, which
// reads from the connection only when the request's body has been read.
type watch struct{ log *slog.Logger }

func (w *watch) add(net.Conn, func()) (remove func()) { return func() {} }

func (w *watch) close() {}
