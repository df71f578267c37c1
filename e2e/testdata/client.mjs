// Sends requests with what Node has, each to a sleeping actor, and prints a line
// of JSON for each: what sent it, the status, the actor's mark, the body.
import http from "node:http";
import http2 from "node:http2";

const [clear, tls] = process.argv.slice(2);
const payload = Buffer.alloc(1 << 20, "node");

function tell(what, status, mark, body) {
  console.log(JSON.stringify({ what, status: Number(status), mark, body }));
}

async function text(stream) {
  let all = "";
  for await (const chunk of stream.setEncoding("utf8")) all += chunk;
  return all;
}

function viaHTTP(what, to, options, body) {
  return new Promise((resolve, reject) => {
    const url = new URL(options.path ?? "/", clear);
    const request = http.request(url, { method: options.method, headers: { "X-To": to, ...options.headers } });
    request.on("error", reject);
    request.on("response", async (response) => {
      tell(what, response.statusCode, response.headers["x-actor"], await text(response));
      resolve();
    });
    if (options.headers?.Expect) {
      request.on("continue", () => request.end(body));
      request.flushHeaders();
    } else {
      request.end(body);
    }
  });
}

function viaHTTP2(what, base, to, headers, body) {
  return new Promise((resolve, reject) => {
    const session = http2.connect(base, { rejectUnauthorized: false });
    session.on("error", reject);
    const stream = session.request({ "x-to": to, ...headers });
    stream.on("error", reject);
    stream.on("response", async (answer) => {
      tell(what, answer[":status"], answer["x-actor"], await text(stream));
      session.close();
      resolve();
    });
    stream.end(body);
  });
}

async function viaFetch(what, to, path, init) {
  const response = await fetch(new URL(path, clear), { ...init, headers: { "X-To": to } });
  tell(what, response.status, response.headers.get("x-actor"), await response.text());
}

await viaHTTP("http get", "h1-node-get", { method: "GET" });
await viaHTTP("http post", "h1-node-post", { method: "POST", path: "/upload" }, payload);
await viaHTTP("http expect", "h1-node-expect",
  { method: "POST", path: "/upload", headers: { Expect: "100-continue", "Content-Length": payload.length } }, payload);
await viaHTTP2("http2 get", clear, "h2c-node-get", {});
await viaHTTP2("http2 post", clear, "h1-node-h2post", { ":method": "POST", ":path": "/upload" }, payload);
await viaHTTP2("http2 tls", tls, "h2c-node-tls", { ":method": "POST", ":path": "/upload" }, payload);
await viaFetch("fetch get", "h1-node-fetch", "/", {});
await viaFetch("fetch post", "h2c-node-fetch", "/upload", { method: "POST", body: payload });
await viaFetch("fetch events", "h1-node-events", "/events?n=3&ms=1", {});
await viaFetch("fetch unknown", "nobody", "/", {});
process.exit(0);
