// A client made of the official TypeScript SDK. Prints what happened, a line each.
// node client.mjs SDK http URL | node client.mjs SDK stdio COMMAND ARGUMENTS...
const [sdk, kind, ...target] = process.argv.slice(2);
const { Client } = await import(`${sdk}/client/index.js`);
let transport;
if (kind === "http") {
  const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
  transport = new StreamableHTTPClientTransport(new URL(target[0]));
} else {
  const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
  transport = new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: "inherit" });
}
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);

// A call that goes on for longer than the client waits: progress keeps it alive.
let notes = 0;
const patient = await client.callTool(
  { name: "jobs.list", arguments: { sources: ["arbeitnow", "greenhouse:acme"], timeout_seconds: 3 } }, undefined,
  { timeout: 1500, resetTimeoutOnProgress: true, onprogress: () => notes++ });
console.log("patient", patient.structuredContent.stop_reason, patient.structuredContent.jobs.length, notes >= 2);

// A call that its user stops when it is under way.
const stop = new AbortController();
let at, heard = 0;
const stopped = client.callTool(
  { name: "jobs.list", arguments: { sources: ["arbeitnow", "greenhouse:acme"] } }, undefined,
  { signal: stop.signal, onprogress: () => { if (++heard === 2) { at = Date.now(); stop.abort("the user pressed stop"); } } });
try {
  await stopped;
  console.log("not stopped");
} catch {
  console.log("stopped", at);
}

const next = await client.callTool({ name: "jobs.list", arguments: { boards: ["arbeitnow"], limit: 3 } });
console.log("next", next.structuredContent.jobs.length);
await client.close();
