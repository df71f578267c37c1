// The status page, kept up to date. Without this script the page is whole, but
// stands still and changes nothing.
"use strict";

const root = document.documentElement;
root.classList.add("scripted");

// brief writes milliseconds as the page does.
function brief(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return s.toFixed(1) + "s";
  if (s < 60) return Math.floor(s) + "s";
  const m = Math.floor(s / 60);
  if (m < 60) return m + "m" + Math.floor(s % 60) + "s";
  if (m < 48 * 60) return Math.floor(m / 60) + "h" + (m % 60) + "m";
  return Math.floor(m / 60 / 24) + "d";
}

// The clock of the machine may differ from the router's: times are shown by the
// router's, as far as it is known.
let skew = 0;

function tick(within) {
  const now = Date.now() + skew;
  for (const t of within.querySelectorAll("time[data-ago], time[data-left]")) {
    const text = brief("ago" in t.dataset ? now - t.dataset.ago : t.dataset.left - now);
    if (t.textContent !== text) t.textContent = text;
  }
}

// morph makes a node like another one, and touches only what differs, so that
// focus, selections and what is folded out stay.
function morph(to, from) {
  if (to.nodeType === Node.TEXT_NODE) {
    if (to.data !== from.data) to.data = from.data;
    return;
  }
  for (const { name, value } of from.attributes) {
    if (to.getAttribute(name) !== value) to.setAttribute(name, value);
  }
  for (const { name } of [...to.attributes]) {
    if (!from.hasAttribute(name) && name !== "open" && name !== "disabled") to.removeAttribute(name);
  }
  if (to.localName !== "time") morphChildren(to, from);
}

// key is what names a row of a table: what it changes, a request's id, or its
// first words; and who waits for the same.
function key(node) {
  if (node.dataset && node.dataset.key) return node.dataset.key;
  if (node.localName !== "tr") return "";
  const post = node.querySelector("[data-post]");
  return post ? post.dataset.post : (node.querySelector(".id") || node).textContent;
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

function morphChildren(to, from) {
  const old = new Map(); // rows by what names them: they move, and are not written over each other
  for (const row of to.children) if (key(row)) old.set(key(row), row);
  const named = old.size > 0;
  let at = to.firstChild;
  for (const next of [...from.childNodes]) {
    const row = old.get(key(next));
    old.delete(key(next)); // the next one of the same name is another one
    if (row && row.parentNode === to && row !== at && alike(row, next)) {
      to.insertBefore(row, at);
      morph(row, next);
    } else if (at && alike(at, next) && (!named || row === at || next.nodeType === Node.TEXT_NODE)) {
      morph(at, next);
      at = at.nextSibling;
    } else {
      to.insertBefore(next, at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

const link = document.getElementById("link");

function say(text, bad) {
  link.textContent = text;
  link.classList.toggle("error", Boolean(bad));
}

function listen() {
  const source = new EventSource("/statusz/live" + location.search);
  source.onopen = () => say("live");
  source.onerror = () => {
    say("the router does not answer; this is how it was", true);
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
  source.addEventListener("section", (event) => {
    const { name, html } = JSON.parse(event.data);
    const section = document.getElementById(name);
    const fresh = new DOMParser().parseFromString("<body>" + html, "text/html");
    morphChildren(section, fresh.body);
    tick(section);
  });
  addEventListener("pagehide", () => source.close(), { once: true });
}

// Changes.

const dialog = document.getElementById("ask");
const field = document.getElementById("token"); // both are missing where nothing can be changed

function ask() {
  return new Promise((done) => {
    field.value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => done(dialog.returnValue === "ok" ? field.value.trim() : ""), { once: true });
    dialog.showModal();
  });
}

async function change(path, body, what) {
  const token = sessionStorage.getItem("token") || (await ask());
  if (!token) return;
  say(what + " …");
  try {
    const answer = await fetch(path, { method: "POST", body, headers: { Authorization: "Bearer " + token } });
    const result = await answer.json();
    if (answer.status === 401) {
      sessionStorage.removeItem("token");
      say("that token is not the router's", true);
      return;
    }
    sessionStorage.setItem("token", token);
    if (answer.ok) say(what + ": " + (result.state || "done"));
    else say(what + ": " + result.detail, true);
  } catch {
    say(what + ": the router does not answer", true);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-post]");
  if (!button || button.disabled) return;
  button.disabled = true;
  await change(button.dataset.post, "", button.getAttribute("aria-label"));
  button.disabled = false;
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.post) return;
  event.preventDefault();
  const workers = Number(form.elements.workers.value);
  change(form.dataset.post, JSON.stringify({ workers }), form.querySelector("button").getAttribute("aria-label"));
});

skew = Number(document.body.dataset.now) - Date.now();
setInterval(() => tick(document), 1000);
listen();
