// What both pages stand on: elements, the address of the API, the token, and code to copy.

/** An element. Properties are its own, but for `class`, names with a dash (attributes) and `vars` (custom properties, which CSP lets be). */
const el = (tag, properties, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "vars") for (const [k, v] of Object.entries(value)) made.style.setProperty(k, v);
    else if (name.includes("-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
};
const $ = (id) => document.getElementById(id);

/** This page's address less `ending`, with a slash behind it: what the API's paths are seen from, under any prefix. */
const homeOf = (ending) => new URL(location.pathname.replace(ending, "/"), location.origin);

const TOKEN = "hotfoot-token";
const token = {
  get: () => { try { return sessionStorage.getItem(TOKEN) ?? ""; } catch { return ""; } },
  set: (value) => { try { sessionStorage.setItem(TOKEN, value); } catch { /* a browser that keeps nothing: asked again next time */ } },
};
const ask = (url, init = {}) =>
  fetch(url, { ...init, headers: { ...init.headers, ...(token.get() ? { authorization: `Bearer ${token.get()}` } : {}) } });

/** Ask for a token, and call `then` once there is one. */
const wantToken = (then) => {
  $("auth").hidden = false;
  $("token").value = token.get();
  $("token").focus();
  $("auth").onsubmit = (event) => {
    event.preventDefault();
    token.set($("token").value.trim());
    then();
  };
};

const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not over plain http, but from this machine
    const area = el("textarea", { value: text, class: "unseen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
};

/** A block of code with a button that copies it. */
const codeBlock = (text, what) => {
  const pre = el("pre", { tabIndex: 0, "aria-label": what, role: "region" }, el("code", {}, text));
  const button = el("button", { type: "button", "aria-label": `Copy ${what}` }, "Copy");
  button.onclick = async () => {
    await copy(text);
    button.textContent = "Copied";
    button.setAttribute("aria-live", "polite");
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  };
  return el("div", { class: "code" }, pre, button);
};

/** Text as one word of a POSIX shell. */
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** What went wrong, as a person reads it, in whichever shape it came: ours, OpenAI's, or a front door's own. */
const problemOf = (body) => {
  const error = body?.error ?? body?.message ?? body;
  const text = typeof error === "string" ? error : error?.message ?? JSON.stringify(error);
  return { text, type: body?.error_type ?? error?.type ?? "" };
};
