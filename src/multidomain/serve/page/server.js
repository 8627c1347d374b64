/* Requests to the server: tokens, an unreachable server, and error responses. */

const ASK_AGAIN_MS = 2000;

const $ = (id) => document.getElementById(id);
let whenBack = () => {};
let pollTimer = 0;

class Refused extends Error { // an error response; its message is for the user
  constructor({ message, details }) {
    super(message);
    this.details = details;
  }
}
class Unreachable extends Error {}
class NeedsToken extends Error {}

/* Set what to do when the server is reachable again, or a token was entered. */
export function onBack(action) {
  whenBack = action;
}

export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch {
    serverIsGone();
    throw new Unreachable();
  }
  if (response.status === 401) {
    askForToken(Boolean(token));
    throw new NeedsToken();
  }
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    throw new Refused(body?.error ?? { message: `The server responded with status ${response.status}.` });
  }
  return response;
}

export async function askJson(path, body) {
  const headers = { "Content-Type": "application/json" };
  const options = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  return (await ask(path, options)).json();
}

function serverIsGone() {
  $("offline").hidden = false;
  clearTimeout(pollTimer);
  pollTimer = setTimeout(lookForServer, ASK_AGAIN_MS);
}

async function lookForServer() {
  clearTimeout(pollTimer);
  try {
    await fetch("healthz", { cache: "no-store" });
  } catch {
    pollTimer = setTimeout(lookForServer, ASK_AGAIN_MS);
    return;
  }
  $("offline").hidden = true;
  whenBack();
}

function askForToken(wasWrong) {
  $("token-form").hidden = false;
  $("token-message").textContent = wasWrong ? "The server does not accept this token." : "";
  $("token").setAttribute("aria-invalid", String(wasWrong));
  $("token").focus();
}

/* Actions: only the latest of each kind counts, and an error is shown beside the control that caused it. */

const latest = new Map();
const unfinished = new Map(); // waiting for the server or for a token

export async function act(name, places, work) {
  const { busy, message, reword = (error) => error.message } = places;
  const ticket = (latest.get(name) ?? 0) + 1;
  latest.set(name, ticket);
  const isLatest = () => latest.get(name) === ticket;
  unfinished.delete(name);
  busy.forEach((element) => element.setAttribute("aria-busy", "true"));
  message.textContent = "";
  try {
    await work(isLatest);
  } catch (error) {
    if (error instanceof Refused) {
      if (isLatest()) message.textContent = reword(error);
    } else if (error instanceof Unreachable || error instanceof NeedsToken) {
      unfinished.set(name, () => act(name, places, work));
    } else {
      throw error;
    }
  } finally {
    if (isLatest()) busy.forEach((element) => element.removeAttribute("aria-busy"));
  }
}

export async function finish() {
  const actions = [...unfinished.values()];
  unfinished.clear();
  for (const action of actions) await action();
}

$("retry").addEventListener("click", lookForServer);
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value.trim());
  whenBack();
});
