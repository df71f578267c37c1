package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"layover/internal/cli"
	"layover/internal/jobs/board"
	"layover/internal/jobs/courtesy"
	"layover/internal/jobs/search"
	"layover/internal/jobs/tools"
)

// reading is how boards are asked: the settings of all commands that do.
type reading struct {
	boardsAt string
	state    string
	contact  string
	site     string
	proxy    bool
	logLevel string
	logForm  string
}

func (r *reading) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.boardsAt, "boards-at", "", "ask boards that are played at this `address` (jobs-mcp boards) instead of the real ones")
	f.StringVar(&r.state, "state", "auto", "`folder` for what must survive a restart: answers, pauses that boards asked for, cursors; auto: the user's cache, off with --boards-at; off: none")
	f.StringVar(&r.contact, "contact", "", "an `address` by which boards can reach who runs this; sent to them with each request")
	f.StringVar(&r.site, "site", "", "a `page` about who runs this; sent to boards with each request")
	f.BoolVar(&r.proxy, "use-proxy", false, "ask boards through the proxy that HTTPS_PROXY and NO_PROXY name")
	f.StringVar(&r.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&r.logForm, "log-format", "text", "text or json")
}

// log is the program's log, on stderr.
func (r *reading) log(to io.Writer) (*slog.Logger, error) {
	level, err := cli.Level(r.logLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	if r.logForm != cli.FormatText && r.logForm != cli.FormatJSON {
		return nil, fmt.Errorf("--log-format: %q: write text or json", r.logForm)
	}
	return cli.NewLog(to, level, r.logForm), nil
}

// reader asks boards.
type reader struct {
	boards   []*board.Board
	courtesy *courtesy.Courtesy
	engine   *search.Engine
}

// open makes a reader. Call close when its operations are over.
func (r *reading) open(log *slog.Logger) (*reader, error) {
	o := courtesy.Options{Version: version(), Site: r.site, Contact: r.contact, Log: log}
	var err error
	switch {
	case r.boardsAt != "":
		if o.Dial, err = dialTo(r.boardsAt); err != nil {
			return nil, err
		}
		if r.state != "auto" { // what is made up never gets among what is real by itself
			o.Folder = r.folder()
		}
	case r.state == "auto":
		if o.Folder, err = courtesy.DefaultFolder(); err != nil {
			log.Warn("nothing will survive a restart", "error", err)
		}
	default:
		o.Folder = r.folder()
	}
	if r.proxy {
		o.Proxy = http.ProxyFromEnvironment
	}
	return openReader(o)
}

func (r *reading) folder() string {
	if r.state == "off" {
		return ""
	}
	return r.state
}

func dialTo(address string) (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	address = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	dial, err := courtesy.Local(address)
	if err != nil {
		return nil, fmt.Errorf("--boards-at: %w", err)
	}
	return dial, nil
}

func openReader(o courtesy.Options) (*reader, error) {
	c, err := courtesy.New(o)
	if err != nil {
		return nil, err
	}
	engine := search.New(board.All, c.Fetch, search.Options{Store: c.Keep("cursors"), Cost: tools.Cost})
	return &reader{boards: board.All, courtesy: c, engine: engine}, nil
}

func (r *reader) close() error {
	r.engine.Wait()
	return r.courtesy.Close()
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}
