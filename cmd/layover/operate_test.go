package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTokenIsForItsUserAloneAndNewWithEachStart(t *testing.T) {
	folder := t.TempDir()
	text := byName + "actors:\n" + testActor("a", 0, "")
	file := filepath.Join(folder, "state", tokenFile)
	var tokens []string
	for range 2 {
		p := serving(t, folder, text)
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		token, err := readToken(file)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
		for given, want := range map[string]int{token: 200, "wrong": 401} {
			req, err := http.NewRequest("POST", "http://"+p.admin+"/api/v1/actors/a/wake", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+given)
			resp, err := http.DefaultClient.Do(req)
			if err != nil || resp.StatusCode != want {
				t.Fatalf("%v, %v; want %d", resp, err, want)
			}
			resp.Body.Close()
		}
		p.signal(os.Interrupt)
		p.exit()
		if strings.Contains(p.logs.String(), token) {
			t.Error("the log has the token")
		}
		if !p.logged("operator", "change=wake", "of=a") || !p.logged("operator refused", "status=401") {
			t.Errorf("the log does not tell of both:\n%s", p.logs)
		}
	}
	if tokens[0] == tokens[1] {
		t.Error("two starts have one token")
	}
}

func TestATokenFileMustBeGoodAndPrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, test := range []struct {
		text string
		mode os.FileMode
		says string
	}{
		{"a-token-of-sixteen\n", 0o600, ""},
		{"a-token-of-sixteen", 0o400, ""},
		{"a-token-of-sixteen", 0o640, "chmod 600"},
		{"short", 0o600, "at least 16"},
		{"two words of a token", 0o600, "without spaces"},
		{"", 0o600, "at least 16"},
	} {
		os.Remove(file)
		if err := os.WriteFile(file, []byte(test.text), test.mode); err != nil {
			t.Fatal(err)
		}
		token, err := readToken(file)
		if test.says == "" && (err != nil || token != "a-token-of-sixteen") || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%q, mode %#o: %q, %v; want %q", test.text, test.mode, token, err, test.says)
		}
	}
}

func TestAConfigurationIsShownWithoutItsSecrets(t *testing.T) {
	got := masked([]byte(`# hunter2 was the old one
lot: 5 # hunter2
actors:
  a:
    command: [run, --port, "{port}", --api-key, hunter2, --token=hunter2, "http://me:hunter2@host.test/", hunter3]
    env: &all {PASSWORD: hunter2, MODE: hunter2}
  b: {command: [run], env: *all}
  c: {command: [run], env: {<<: *all, X: hunter2}}
  d: {command: [sh, -c, "exec run --password hunter2 --mode fast", --pass=hunter2, --pwd, hunter2, "Authorization: Bearer hunter2"]}
  e: {command: [run, "user=me password=hunter2 host=db", "run --token hunter2 x=1", "{\"api_key\": \"hunter2\"}", "https://host.test/?key=hunter2&a=1"]}
routes:
  - {header: X-Api-Key, value: hunter2, actor: a}
  - {value: "{actor}", header: X-Auth-Actor}
  - {header: X-Colour, value: red, actor: a}
`))
	if strings.Contains(got, "hunter2") {
		t.Errorf("a secret is shown:\n%s", got)
	}
	for _, want := range []string{"lot: 5", "PASSWORD: (hidden)", "--token=(hidden)", "http://(hidden)@host.test/", "hunter3", "'{port}'",
		"--mode fast", "user=me password=(hidden) host=db", "?key=(hidden)", "value: '{actor}'", "value: red"} {
		if !strings.Contains(strings.ReplaceAll(got, `"`, "'"), want) {
			t.Errorf("%q is not shown:\n%s", want, got)
		}
	}
}

func TestTheNameOfARouteHasNoSecret(t *testing.T) {
	c, err := parseConfig("f.yaml", []byte(`
state: /s
actors: {a: {command: [sh, "{port}"]}}
routes:
  - {header: X-Api-Key, value: hunter2, actor: a}
  - {header: X-Api-Key, value: hunter3, actor: a}
  - {header: X-Colour, value: red, actor: a}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[X-Api-Key: (hidden), route 1]", "[X-Api-Key: (hidden), route 2]", "[X-Colour: red]"} {
		if got := c.Routes[i].Name; got != want {
			t.Errorf("route %d is called %s, want %s", i+1, got, want)
		}
	}
	if said := plan(c); strings.Contains(said, "hunter") {
		t.Errorf("the time plan says\n%s", said)
	}
}
