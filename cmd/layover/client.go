package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"layover/internal/admin"
)

// reach is how a command finds the router that it is about.
type reach struct {
	file  string // the router's configuration
	url   string // of its admin address; empty: what its state folder says
	token string // file with the token; empty: what the configuration or the state folder has
	json  bool
}

// flags adds what every command about a running router understands.
func (r *reach) flags(cmd *cobra.Command) *cobra.Command {
	flags := cmd.Flags()
	flags.StringVar(&r.file, "config", defaultConfig, "the configuration file of the router")
	flags.StringVar(&r.url, "admin", "", "its admin address, such as http://127.0.0.1:7070 (default: what the file, or its state folder, says)")
	flags.StringVar(&r.token, "token-file", "", "the file with its token (default: the one in its state folder)")
	flags.BoolVar(&r.json, "json", false, "print JSON, as the admin address answers")
	cmd.MarkFlagFilename("config", "yaml", "yml")
	cmd.MarkFlagFilename("token-file")
	return cmd
}

// client asks the admin address of one router.
type client struct {
	reach
	base    string
	folders []string // where its token may be
	http    http.Client
}

// errNoRouter says that there is no router to ask, and what to do.
type errNoRouter struct{ why string }

func (e errNoRouter) Error() string {
	return e.why + "; start it with 'layover serve', name the file of another one with --config, or its address with --admin"
}

// client finds the router. Nothing is asked yet.
func (r reach) client() (*client, error) {
	c := &client{reach: r}
	configured, err := load(r.file)
	if err == nil {
		c.folders = append(c.folders, configured.State)
		if c.token == "" {
			c.token = configured.TokenFile
		}
	}
	if dir := defaultState(r.file); dir != "" { // also if the file is gone, or is being mended
		c.folders = append(c.folders, dir)
	}
	if r.url != "" {
		c.base, err = adminURL(r.url)
		return c, err
	}
	if errors.Is(err, os.ErrNotExist) && len(c.folders) == 0 {
		return nil, errNoRouter{fmt.Sprintf("there is no file %s that would say where the router is", r.file)}
	}
	for _, dir := range c.folders {
		text, err := os.ReadFile(filepath.Join(dir, whereFile))
		var w where
		if err == nil && json.Unmarshal(text, &w) == nil && w.URL != "" {
			c.base = w.URL
			return c, nil
		}
	}
	if configured != nil && configured.Admin == "off" {
		return nil, fmt.Errorf("%s has admin: off, so this router cannot be asked; give it an address and restart it", r.file)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoRouter{"there is no file " + r.file + ", and no router that was started with it runs here"}
	}
	return nil, errNoRouter{"no router with the file " + r.file + " runs here"}
}

// adminURL reads the address that a user gave.
func adminURL(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--admin %q is not an address; write one such as 127.0.0.1:7070", text)
	}
	return u.Scheme + "://" + u.Host, nil
}

// send sends a request and returns its answer, which is a good one. A change
// carries the token.
func (c *client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		token, err := c.readToken()
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if _, refused := errors.AsType[*net.OpError](err); refused && ctx.Err() == nil {
		return nil, errNoRouter{"no router answers at " + c.base}
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var p admin.Problem
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/problem+json" && resp.Header.Get("Layover-Reason") == "" && json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&p) == nil {
		return nil, &p
	}
	return nil, fmt.Errorf("%s answered %s; is it the admin address of a router?", c.base+path, resp.Status)
}

func (c *client) readToken() (string, error) {
	if c.token != "" {
		token, err := readToken(c.token)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return token, nil
	}
	var err error
	for _, dir := range c.folders {
		var token string
		if token, err = readToken(filepath.Join(dir, tokenFile)); err == nil {
			return token, nil
		}
	}
	if errors.Is(err, os.ErrPermission) {
		return "", fmt.Errorf("%w: run this as the router's user, or name a file with the token with --token-file", err)
	}
	return "", fmt.Errorf("there is no token for this router in %s; name the file that has it with --token-file (an atenet-router has none, and changes nothing)", strings.Join(slices.Compact(c.folders), " or "))
}

// fetch decodes the answer to a GET.
func fetch[T any](ctx context.Context, c *client, path string, query url.Values) (out T, err error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	return out, json.NewDecoder(resp.Body).Decode(&out)
}

// allActors returns every actor that query matches, page by page.
func (c *client) allActors(ctx context.Context, query url.Values) ([]admin.Actor, error) {
	all := []admin.Actor{}
	query.Set("limit", "500")
	for {
		page, err := fetch[admin.Actors](ctx, c, "/api/v1/actors", query)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Rows...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// printJSON prints what a command found, for programs.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// clean is text that comes from programs and clients without what a terminal
// would obey.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, text)
}

// completeActors offers the names of actors.
func (r *reach) completeActors(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return r.complete(begun, func(ctx context.Context, c *client) (names []string, err error) {
		page, err := fetch[admin.Actors](ctx, c, "/api/v1/actors", url.Values{"search": {begun}, "limit": {"500"}})
		for _, a := range page.Rows {
			names = append(names, a.Name)
		}
		return names, err
	})
}

// completePools offers the names of pools.
func (r *reach) completePools(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return r.complete(begun, func(ctx context.Context, c *client) (names []string, err error) {
		page, err := fetch[admin.Pools](ctx, c, "/api/v1/pools", url.Values{"search": {begun}, "limit": {"500"}})
		for _, p := range page.Rows {
			names = append(names, p.Name)
		}
		return names, err
	})
}

// completeRequests offers the ids of the requests that wait and of the last ones.
func (r *reach) completeRequests(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return r.complete(begun, func(ctx context.Context, c *client) (ids []string, err error) {
		waiting, _ := fetch[admin.Parked](ctx, c, "/api/v1/lot", url.Values{"limit": {"500"}})
		for _, w := range waiting.Rows {
			ids = append(ids, w.ID)
		}
		page, err := fetch[admin.Requests](ctx, c, "/api/v1/requests", url.Values{"limit": {"500"}})
		for _, rec := range page.Rows {
			ids = append(ids, rec.ID)
		}
		return ids, err
	})
}

// completionTime is how long a shell waits for names.
const completionTime = 2 * time.Second

func (r *reach) complete(begun string, names func(context.Context, *client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	c, err := r.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := names(ctx, c) // a shell has no place for an error
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
}
