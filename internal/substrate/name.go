package substrate

import (
	"fmt"
	"strings"

	"layover/internal/router"
	"layover/internal/substrate/ateapi"
)

// HostSuffix is the part of a host after the actor and its atespace, unless
// another one is configured.
const HostSuffix = "actors.resources.substrate.ate.dev"

// TargetHeader names the actor of a request: <atespace>/<actor>.
const TargetHeader = "ate-target-actor"

// Ref names an actor. The zero Ref names none.
type Ref struct {
	Atespace, Name string // DNS-1123 labels
}

// String returns <atespace>/<name>, which is also how the router knows the actor.
func (r Ref) String() string { return r.Atespace + "/" + r.Name }

func (r Ref) wire() *ateapi.ObjectRef { return &ateapi.ObjectRef{Atespace: r.Atespace, Name: r.Name} }

// Locate returns the actor of a request: what target, the value of TargetHeader,
// names, or if there is none what host does. The error is a *router.Error of
// reason UnknownActor.
func Locate(target, host, suffix string) (Ref, error) {
	if target != "" {
		return ParseRef(target)
	}
	return ParseHost(host, suffix)
}

// ParseRef reads <atespace>/<name>. The error is a *router.Error of reason
// UnknownActor.
func ParseRef(s string) (Ref, error) {
	atespace, name, ok := strings.Cut(s, "/")
	if !ok || !isLabel(atespace) || !isLabel(name) {
		return Ref{}, invalid("%q is not <atespace>/<actor>, each of a-z, 0-9 and inner -, at most 63 characters long", s)
	}
	return Ref{atespace, name}, nil
}

// ParseHost reads <name>.<atespace>.<suffix>. Case, a port and a dot at the end
// do not matter, also in suffix. The error is a *router.Error of reason
// UnknownActor.
func ParseHost(host, suffix string) (Ref, error) {
	suffix = strings.ToLower(strings.Trim(suffix, "."))
	first, ok := strings.CutSuffix(strings.ToLower(withoutPort(host)), "."+suffix)
	name, atespace, two := strings.Cut(first, ".")
	if !ok || !two || !isLabel(name) || !isLabel(atespace) {
		return Ref{}, invalid("the host %q is not <actor>.<atespace>.%s", host, suffix)
	}
	return Ref{atespace, name}, nil
}

// withoutPort returns host without a port and without a dot at its end.
func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.Trim(host[i+1:], "0123456789") == "" {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

func invalid(format string, args ...any) error {
	return router.Fail(router.UnknownActor, "invalid actor reference", fmt.Errorf(format, args...))
}

// isLabel reports whether s is a DNS-1123 label.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
