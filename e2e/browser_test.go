package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// browser is a Chromium without a screen, told what to do over a pair of pipes
// (its DevTools protocol): messages are JSON, each ended by a zero byte.
type browser struct {
	t       *testing.T
	in      *os.File
	session string // of its one tab

	mu       sync.Mutex
	n        int
	answers  map[int]chan reply
	problems []string // what the page's script, or the browser about the page, complained of
}

type reply struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// openBrowser starts Chromium with one empty tab of the given size.
func openBrowser(t *testing.T, width, height int) *browser {
	t.Helper()
	path := need(t, "chromium")
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
		"--user-data-dir="+filepath.Join(t.TempDir(), "profile"), fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &browser{t: t, in: in, answers: make(map[int]chan reply)}
	read := make(chan struct{})
	go func() { // ends with the browser
		defer close(read)
		b.read(out)
	}()
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }() // received, or the process is killed and it ends
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		in.Close()
		out.Close()
		<-read
	})
	var target struct{ TargetID string }
	b.call(&target, "", "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	b.call(&attached, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	for _, domain := range []string{"Runtime.enable", "Log.enable", "Page.enable"} {
		b.call(nil, b.session, domain, nil)
	}
	b.call(nil, b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	return b
}

func (b *browser) read(out *os.File) {
	messages := bufio.NewReader(out)
	for {
		text, err := messages.ReadBytes(0)
		if err != nil {
			return
		}
		var r reply
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &r) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case r.ID != 0:
			b.answers[r.ID] <- r
			delete(b.answers, r.ID)
		case r.Method == "Runtime.exceptionThrown" || r.Method == "Log.entryAdded":
			b.problems = append(b.problems, string(r.Params))
		}
		b.mu.Unlock()
	}
}

func (b *browser) send(session, method string, params any) <-chan reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	answer := make(chan reply, 1)
	b.answers[b.n] = answer
	text, err := json.Marshal(struct {
		ID        int    `json:"id"`
		SessionID string `json:"sessionId,omitempty"`
		Method    string `json:"method"`
		Params    any    `json:"params,omitempty"`
	}{b.n, session, method, params})
	if err == nil {
		b.in.Write(append(text, 0)) // who waits for the answer notices
	}
	return answer
}

func (b *browser) call(result any, session, method string, params any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	select {
	case r := <-b.send(session, method, params):
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(r.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-ctx.Done():
		b.t.Fatalf("the browser does not answer %s", method)
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call(nil, b.session, "Page.navigate", map[string]any{"url": url})
	b.until("the page to load", `document.readyState === "complete" && location.href.startsWith(`+quoted(url[:10])+`)`)
}

// eval returns what an expression is in the page, as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call(&r, b.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return fmt.Sprint(r.Result.Value)
}

func (b *browser) until(what, expression string) {
	b.t.Helper()
	until(b.t, what, func() bool { return b.eval("Boolean("+expression+")") == "true" })
}

// key presses a key, as a keyboard does.
func (b *browser) key(key, text string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call(nil, b.session, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": codes[key]})
	}
}

func (b *browser) write(text string) {
	b.t.Helper()
	b.call(nil, b.session, "Input.insertText", map[string]any{"text": text})
}

// prefer sets the scheme of colours that the reader prefers.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	b.call(nil, b.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// picture writes a screenshot into the folder that LAYOVER_PICTURES names, if it
// does.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("LAYOVER_PICTURES")
	if folder == "" {
		return
	}
	var shot struct{ Data string }
	b.call(&shot, b.session, "Page.captureScreenshot", map[string]any{"format": "png"})
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// complaints returns what went wrong in the page so far.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problems
}

func quoted(text string) string {
	q, _ := json.Marshal(text) // of a string it cannot fail
	return string(q)
}
