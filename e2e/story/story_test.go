// Package story plays the first day of somebody who has nothing but the README:
// its commands and its configuration are taken from there, so that they cannot
// go stale.
package story

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAStrangersFirstDay(t *testing.T) {
	d := newDay(t)

	d.step("install it, as the README says")
	d.command("Use it", "go build")

	d.step("write a configuration for two programs: the README's, one of them not written yet")
	d.write("layover.yaml", d.config())
	if said := d.command("Use it", "check"); !strings.Contains(said, `the program "./preview" cannot be run now`) {
		t.Errorf("check does not say that a program is missing:\n%s", said)
	}
	d.write("preview", preview)
	if said := d.command("Use it", "check"); strings.Contains(said, "warning") {
		t.Errorf("check warns of a good file:\n%s", said)
	}

	d.step("serve, and wake both")
	d.serve()
	if said := d.command("Use it", "curl"); !strings.Contains(said, "Directory listing") {
		t.Errorf("hello answers %q", said)
	}
	if got := d.ask("preview-1"); got.status != http.StatusOK || got.body != "preview of 1\n" {
		t.Fatalf("preview-1 answers %+v", got)
	}
	d.load("hello", "preview-1") // from here to the end, and nothing of it is lost

	d.step("save a file with a slip: it is refused as a whole, and what is in force stays")
	d.good = d.read()
	d.write("layover.yaml", strings.Replace(d.good, "command: [./preview", "comand: [./preview", 1))
	const slip = `has no field "comand"; did you mean "command"?`
	d.until("the log to say so", func() bool { return strings.Contains(d.log.String(), "reload: the configuration in force stays") })
	d.mustSay("the log", strings.ReplaceAll(d.log.String(), `\"`, `"`), "layover.yaml:", slip)
	d.mustSay("check", d.run("! "+d.find("Use it", "check")), "layover.yaml:", slip)
	d.mustSay("/statusz.json", strings.ReplaceAll(d.get("/statusz.json"), `\"`, `"`), slip)
	d.mustSay("the page", html.UnescapeString(d.page()), "a newer configuration is refused", slip)
	d.save(d.good)

	d.step("break one: a wrong path")
	d.breaks("./preview,", "./previw,")
	failed := d.refusal("preview-1", "start_failed")
	d.findOutWhy(failed, "cannot run ./previw: no such file or directory")
	d.logsShow("preview-1 is failed: the actor did not start: cannot run ./previw: no such file or directory")
	d.mends()

	d.step("break one: it misses something, and says so at its end")
	d.breaks(`"{match}"]`, `"{match}", --database]`)
	failed = d.refusal("preview-1", "start_failed")
	d.findOutWhy(failed, "exited before it was ready (exit status 3)", "preview: DB_URL is not set")
	d.logsShow("preview: DB_URL is not set")
	backsOff := d.refusal("preview-1", "backing_off")
	d.mustSay("why", d.command("When something does not wake", "why", "ID", backsOff.id), "preview: DB_URL is not set")
	d.mends(`"{match}", --database]`, "\"{match}\", --database]\n    env: {DB_URL: \"db://here\"}")

	d.step("break one: it listens at a port of its own, so that requests wait for nothing")
	port := d.freePort()
	d.breaks(`"{match}"`, fmt.Sprintf(`"{match}", --port, "%d"`, port))
	late := d.ask("preview-1", "-H", "Operation-Timeout: 2s") // the README's way to wait no longer
	d.mustBeRefused(late, "still_waking")
	d.findOutWhy(late, "nothing listens at 127.0.0.1:", fmt.Sprintf(", the program listens at 127.0.0.1:%d", port))
	d.logsShow("preview: at port")
	parked := d.park("preview-1", 5)
	d.mends()
	d.areServed(parked)

	d.step("break the program instead of the file, and mend that")
	d.write("preview", strings.Replace(preview, "PORT = ", "import time; time.sleep(3600) # ", 1))
	d.readme("When something does not wake", "./layover sleep preview-1")
	d.run("./layover sleep preview-1")
	parked = d.park("preview-1", 5)
	d.until("it hangs", func() bool { return strings.Contains(d.run("./layover ps preview-1"), "nothing listens") })
	d.write("preview", preview)
	d.run("./layover sleep preview-1")
	d.areServed(parked)

	d.step("break it so that it exits, mend the program, and reload by the signal that the README names")
	d.readme("When something does not wake", "kill -HUP")
	d.broken()
	d.write("preview", "#!/bin/sh\necho 'preview: not today' >&2\nexit 1\n")
	d.run("./layover sleep preview-1")
	failed = d.refusal("preview-1", "start_failed")
	d.findOutWhy(failed, "(exit status 1); its last line: preview: not today")
	d.write("preview", preview)
	d.server.Process.Signal(syscall.SIGHUP)
	d.inForce()
	d.whole()

	d.step("look back: was a request lost?")
	d.count()
	d.stop()
}

// preview is the stranger's program. It finds its port in $PORT.
const preview = `#!/usr/bin/env python3
import http.server, os, sys

def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None

if "--database" in sys.argv and "DB_URL" not in os.environ:
    print("preview: DB_URL is not set", file=sys.stderr)
    sys.exit(3)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = ("preview of " + option("--branch") + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

PORT = int(option("--port") or os.environ["PORT"])
server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
print("preview: at port", PORT, flush=True)
server.serve_forever()
`

// loadPause is how long each client of the load waits between two requests.
const loadPause = 100 * time.Millisecond
