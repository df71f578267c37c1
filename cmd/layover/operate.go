package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"layover/internal/admin"
	"layover/internal/cli"
)

// What a router that runs leaves in its state folder for those who operate it.
const (
	tokenFile = "admin-token"
	whereFile = "admin.json"
)

// where says how the admin address of a router that runs is reached.
type where struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// openAdmin lets who knows the token operate the router. Without a token_file
// the token is a new one in the state folder, which is this process's by now.
func (s *server) openAdmin() error {
	s.admin.SetRouter(s.router)
	s.showConfig(s.config)
	if s.adminAddr == nil || s.config.State == "" {
		return nil
	}
	state, err := os.OpenRoot(s.config.State)
	if err != nil {
		return err
	}
	defer state.Close()
	token := rand.Text()
	if file := s.config.TokenFile; file != "" {
		token, err = readToken(file)
	} else {
		err = replace(state, tokenFile, []byte(token+"\n"))
	}
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	text, err := json.Marshal(where{URL: "http://" + reachable(s.adminAddr), PID: os.Getpid()})
	if err != nil {
		return err
	}
	if err := replace(state, whereFile, text); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	s.admin.SetControl(s.plane, token)
	return nil
}

// closeAdmin takes back what openAdmin left in the state folder: the address may
// be another's soon. It must be called while the folder is this process's.
func (s *server) closeAdmin() {
	if s.adminAddr == nil || s.config.State == "" {
		return
	}
	os.Remove(filepath.Join(s.config.State, whereFile))
	if s.config.TokenFile == "" {
		os.Remove(filepath.Join(s.config.State, tokenFile))
	}
}

// replace writes a file that only this user can read, whatever was there.
func replace(folder *os.Root, name string, text []byte) error {
	if err := folder.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// shortestToken is what a token must have for nobody to guess it.
const shortestToken = 16

// readToken reads a token from a file that others cannot read.
func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others (mode %#o): run chmod 600 %[1]s", file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < shortestToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s must have a token of at least %d characters without spaces, and nothing else", file, shortestToken)
	}
	return token, nil
}

// reachable is where a listener's address is reached from this machine.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
}

// showConfig has the admin address tell of c.
func (s *server) showConfig(c *config) {
	shown := admin.Configuration{File: c.file, Text: masked(c.text), Plan: plan(c), Restart: c.restart}
	s.admin.SetConfig(func() admin.Configuration { return shown })
}

// secret is how arguments and settings begin that may have one.
var secret = regexp.MustCompile(`(?i)` + secretWord)

const secretWord = `(?:pass|pwd|token|secret|key|credential|cookie|auth)`

// within finds secrets inside an argument, such as a command for a shell, a
// header or a list of settings: a word that sounds like one, and what follows it.
var within = regexp.MustCompile(`(?i)(-[\w.-]*` + secretWord + `[\w.-]*\s+|` + secretWord + `[\w.-]*["']?\s*[=:]\s*(?:bearer\s+|basic\s+)?|\bbearer\s+)[^\s,;&]+`)

// masked returns a file's text without what may be secret in it: the values of
// env, and of arguments that are called like a secret. Comments are left out:
// they may have an older one. A text that cannot be read is not shown.
func masked(text []byte) string {
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil {
		return ""
	}
	hide(&root)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if encoder.Encode(&root) != nil || encoder.Close() != nil {
		return ""
	}
	return b.String()
}

func hide(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for i, child := range n.Content {
		hide(child)
		if n.Kind != yaml.MappingNode || i%2 == 0 {
			continue
		}
		switch name := n.Content[i-1].Value; {
		case name == "env":
			hideValues(child)
		case name == "command":
			hideArguments(child)
		case name == "header" && secret.MatchString(child.Value):
			hideCondition(n)
		}
	}
}

// hideCondition hides what a route's header has to be, unless it is an actor.
func hideCondition(route *yaml.Node) {
	for i := 1; i < len(route.Content); i += 2 {
		if value := route.Content[i]; route.Content[i-1].Value == "value" && value.Value != "{actor}" {
			route.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Value: cli.Hidden}
		}
	}
}

func hideValues(n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i := 1; i < len(n.Content); i += 2 {
		n.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Value: cli.Hidden}
	}
}

func hideArguments(n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i, argument := range n.Content {
		argument.Value = within.ReplaceAllString(cli.HideUserinfo(argument.Value), "${1}"+cli.Hidden)
		name, _, joined := strings.Cut(argument.Value, "=")
		switch {
		case !secret.MatchString(name):
		case joined:
			argument.Value = name + "=" + cli.Hidden
		case strings.HasPrefix(name, "-") && i+1 < len(n.Content):
			n.Content[i+1].Value = cli.Hidden
		}
	}
}
