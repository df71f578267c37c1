package substrate_test

import (
	"strings"
	"testing"

	"layover/internal/router"
	"layover/internal/substrate"
)

func TestLocate(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct{ target, host, want string }{ // want empty: refused
		{"demo/alice", "", "demo/alice"},
		{"demo/alice", "bob.other.suffix.test", "demo/alice"},
		{"", "bob.other.suffix.test", "other/bob"},
		{"", "BoB.oTHer.Suffix.Test.:8443", "other/bob"},
		{"", "bob.other.suffix.test:", "other/bob"},
		{"", "0-0.1.suffix.test", "1/0-0"},
		{"", long + "." + long + ".suffix.test", long + "/" + long},
		{"", long + "a.b.suffix.test", ""},
		{"", "", ""},
		{"", "other.suffix.test", ""},
		{"", ".other.suffix.test", ""},
		{"", "bob..suffix.test", ""},
		{"", "c.bob.other.suffix.test", ""},
		{"", "bob.other.suffix.test..", ""},
		{"", "bob.other.suffix.testing", ""},
		{"", "bob.othersuffix.test", ""},
		{"", "-b.other.suffix.test", ""},
		{"", "b-.other.suffix.test", ""},
		{"", "b_b.other.suffix.test", ""},
		{"", "bob.other.suffix.test:http", ""},
		{"", "[::1]:80", ""},
		{"demo", "bob.other.suffix.test", ""},
		{"Demo/alice", "", ""},
		{"demo/alice/x", "", ""},
		{"demo/", "", ""},
		{"/alice", "", ""},
		{"demo/al ice", "", ""},
		{" demo/alice", "", ""},
		{"demo/älice", "", ""},
	} {
		ref, err := substrate.Locate(c.target, c.host, ".suffix.TEST.")
		if c.want == "" {
			e, ok := err.(*router.Error)
			if !ok || e.Reason != router.UnknownActor || e.Detail != "invalid actor reference" || ref != (substrate.Ref{}) {
				t.Errorf("Locate(%q, %q) = %v, %v, want an invalid reference", c.target, c.host, ref, err)
			}
			continue
		}
		if err != nil || ref.String() != c.want {
			t.Errorf("Locate(%q, %q) = %v, %v, want %s", c.target, c.host, ref, err, c.want)
		}
	}
}

func FuzzLocate(f *testing.F) {
	f.Add("demo/alice", "", substrate.HostSuffix)
	f.Add("", "alice.demo."+substrate.HostSuffix+".:80", substrate.HostSuffix)
	f.Add("", "..", "")
	f.Fuzz(func(t *testing.T, target, host, suffix string) {
		ref, err := substrate.Locate(target, host, suffix)
		if err != nil {
			if ref != (substrate.Ref{}) {
				t.Errorf("Locate = %v with the error %v", ref, err)
			}
			return
		}
		if again, err := substrate.ParseRef(ref.String()); err != nil || again != ref {
			t.Errorf("ParseRef(%q) = %v, %v", ref, again, err)
		}
		if strings.Trim(suffix, ".") != suffix || suffix == "" {
			return
		}
		if again, err := substrate.ParseHost(ref.Name+"."+ref.Atespace+"."+suffix, suffix); err != nil || again != ref {
			if !strings.Contains(suffix, ":") { // what looks like a port is none of the suffix
				t.Errorf("ParseHost of %v and the suffix %q = %v, %v", ref, suffix, again, err)
			}
		}
	})
}
