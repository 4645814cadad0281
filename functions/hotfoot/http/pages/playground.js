// The playground: asks what is served, makes its form, sends it, and shows what came and what it took.

const home = homeOf(/\/*$/);
const inPrefix = home.pathname.indexOf("/models/");
const root = inPrefix < 0 ? home : new URL(home.pathname.slice(0, inPrefix + 1), home.origin); // where all models are seen from
const state = { info: {}, task: "", spec: null, language: "curl", running: null };

const start = async () => {
  $("keys").textContent = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";
  $("reference").href = new URL("docs", home).pathname;
  $("form").onsubmit = (event) => { event.preventDefault(); run(); };
  $("form").addEventListener("input", showCode);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
  });
  makeTabs();
  await learn();
};

/** What is served here. */
const learn = async () => {
  const found = await know(new URL("info", home));
  if (found.status === 401 || found.status === 403) {
    tell(found.status === 403 ? SIGNED : null);
    wantToken(() => { tell(null); learn(); });
  } else if (!found.body) {
    tell(`GET ${new URL("info", home).pathname} gives no answer${found.status ? ` but status ${found.status}` : ""}: is a model served here?`);
  }
  if (found.body) $("auth").hidden = true;
  state.info = found.body ?? {};
  document.title = `${state.info.model_id ?? "hotfoot"} · playground`;
  $("name").textContent = state.info.model_id ?? "A model";
  const { task, precision, target, device } = state.info;
  $("tags").replaceChildren(...[task, precision, target, device].filter(Boolean).map((tag) => el("span", {}, tag)));
  showFacts();
  setTask(task ?? "");
  if (found.body) listModels();
};
const SIGNED = "This endpoint wants signed requests, which a page cannot make. `hotfoot playground --url …` on your machine can.";

const know = async (url) => {
  try {
    const response = await ask(url);
    return { status: response.status, body: response.ok ? await response.json() : null };
  } catch {
    return { status: 0, body: null };
  }
};
const tell = (words) => { $("notice").hidden = !words; $("notice").textContent = words ?? ""; };

/** Of several models, a list to go from one to another. */
const listModels = async () => {
  const { body } = await know(new URL("v1/models", root));
  const ids = Array.isArray(body?.data) ? body.data.map((model) => model.id) : [];
  if (ids.length < 2) return;
  $("model").replaceChildren(...ids.map((id) => el("option", { value: id, selected: id === (state.info.name ?? state.info.model_id) }, id)));
  $("model").onchange = () => { location.href = new URL(`models/${$("model").value.split("/").map(encodeURIComponent).join("/")}/`, root); };
  $("models").hidden = false;
};

const MANY = 60; // labels
const showFacts = () => {
  const { info } = state;
  const names = [...new Set((info.labels ?? []).map((label) => (info.task === "token-classification" ? label.replace(/^[BIESLU]-/, "") : label)))];
  const labels = names.slice(0, MANY).join(", ") + (names.length > MANY ? ` and ${names.length - MANY} more` : "");
  const hash = (value) => value && el("code", { title: value }, value.replace(/^sha256:/, "").slice(0, 12));
  const rows = {
    Task: info.task, Revision: hash(info.revision), Digest: hash(info.digest), Precision: info.precision, Target: info.target, Device: info.device, Threads: info.threads,
    "Longest input": info.max_tokens && `${info.max_tokens.toLocaleString("en")} tokens`, Dimensions: info.dimensions, Licence: info.license, "ONNX Runtime": info.onnxruntime, Labels: labels,
  };
  $("facts").replaceChildren(...Object.entries(rows).filter(([, value]) => value).map(([name, value]) => el("div", { class: name === "Labels" ? "wide" : null }, el("dt", {}, name), el("dd", {}, value))));
};

/** The form of a task; `sample` is the artifact's own where it has one. */
const setTask = (task) => {
  const { info } = state;
  const spec = TASKS[task] ?? anyTask(info.sample);
  Object.assign(state, { task, spec });
  const own = task === info.task;
  let values = spec.sample;
  try { if (own && info.sample !== undefined) values = { ...values, ...spec.fill(info.sample) }; } catch { /* a sample of another shape: ours will do */ }
  const mask = info.mask_token ?? "[MASK]";
  if (spec.fields[0].mask && !(own && info.sample)) values = { text: values.text.replace("[MASK]", mask) };
  $("fields").replaceChildren(...modes(task), ...spec.fields.map((field) => fieldOf(field, values[field.name] ?? "", mask)));
  // a vector of one task can be asked for under the other, whose parameters /info does not list
  const known = spec.parameters.filter((name) => !own || !info.parameters || info.parameters.includes(name));
  known.sort((a, b) => (PARAMETERS[a].kind === "flag") - (PARAMETERS[b].kind === "flag"));
  $("parameters").hidden = !known.length;
  $("parameters").querySelector(".grid")?.remove();
  $("parameters").append(el("div", { class: "grid" }, known.map((name) => controlOf(name, spec))));
  showCode();
};

const PAIR = ["feature-extraction", "sentence-similarity"]; // one graph, two ways to ask it
const modes = (task) => {
  if (!PAIR.includes(task)) return [];
  const radio = (name) => el("label", { class: "check" }, el("input", { type: "radio", name: "mode", checked: name === task, onchange: () => {
    setTask(name);
    $("fields").querySelector("input:checked").focus();
  } }), TASKS[name].mode);
  return [el("fieldset", { class: "modes" }, el("legend", {}, "Compare"), PAIR.map(radio))];
};

const fieldOf = (field, value, mask) => {
  const id = `field-${field.name}`;
  const shown = field.kind === "lines" ? [value].flat().join("\n") : field.kind === "json" ? JSON.stringify(value, null, 2) : value;
  const input = field.kind === "line"
    ? el("input", { id, value: shown, autocomplete: "off" })
    : el("textarea", { id, value: shown, vars: { "--rows": field.rows }, rows: field.rows, class: field.kind === "json" ? "mono" : null, spellcheck: field.kind !== "json" });
  const insert = el("button", { type: "button", class: "quiet insert" }, "Insert ", el("code", {}, mask));
  insert.onclick = () => {
    input.setRangeText(mask, input.selectionStart, input.selectionEnd, "end");
    input.focus();
    showCode();
  };
  const label = el("label", { for: id }, field.label, field.hint ? el("span", { class: "hint" }, field.hint) : null);
  return el("div", { class: "field" }, field.mask ? el("div", { class: "over" }, label, insert) : label, input, el("p", { class: "fault", id: `${id}-fault`, role: "alert", hidden: true }));
};

const controlOf = (name, spec) => {
  const { kind, choices, ...rest } = PARAMETERS[name];
  const id = `parameter-${name}`;
  if (kind === "flag") return el("label", { class: "check" }, el("input", { id, type: "checkbox" }), el("code", {}, name));
  const input = kind === "pick"
    ? el("select", { id }, el("option", { value: "" }, "default"), (spec.choices?.[name] ?? choices).map((choice) => el("option", { value: JSON.stringify(choice) }, `${choice}`)))
    : el("input", { id, type: kind === "number" ? "number" : "text", placeholder: "default", autocomplete: "off", ...rest, value: `${spec.start?.[name] ?? ""}` });
  return el("label", { class: "control" }, el("code", {}, name), input);
};

/** The form as a request body; null where a field is not what it says, which is then said at the field. */
const read = () => {
  const values = {}, parameters = {};
  let whole = true;
  for (const field of state.spec.fields) {
    const input = $(`field-${field.name}`), fault = $(`field-${field.name}-fault`);
    fault.hidden = true;
    input.removeAttribute("aria-invalid");
    let value = input.value;
    if (field.kind === "lines") value = value.split("\n").filter((one) => one.trim());
    if (field.kind === "json") {
      try { value = JSON.parse(value.trim() || "{}"); } catch (error) {
        whole = false;
        fault.hidden = false;
        fault.textContent = `Not JSON: ${error.message}`;
        input.setAttribute("aria-invalid", "true");
        input.setAttribute("aria-describedby", fault.id);
      }
    }
    if (field.all) Object.assign(parameters, value);
    else if (!field.parameter || value.length) (field.parameter ? parameters : values)[field.name] = value; // no labels: the model's own
  }
  for (const input of $("parameters").querySelectorAll("input, select")) {
    const name = input.id.replace("parameter-", "");
    const { kind } = PARAMETERS[name];
    if (kind === "flag") { if (input.checked) parameters[name] = true; continue; }
    if (input.value.trim() === "") continue;
    if (kind === "number") parameters[name] = input.valueAsNumber;
    else if (kind === "pick") parameters[name] = JSON.parse(input.value);
    else parameters[name] = kind === "list" ? input.value.split(",").map((one) => one.trim().replaceAll("\\n", "\n")).filter(Boolean) : input.value;
  }
  const inputs = whole ? state.spec.inputs(values) : null;
  return whole ? { inputs, ...(Object.keys(parameters).length ? { parameters } : {}) } : null;
};

const run = async () => {
  const body = read();
  if (!body) { $("fields").querySelector("[aria-invalid]").focus(); return; }
  state.running?.abort();
  const running = new AbortController();
  Object.assign(state, { running });
  const { spec } = state;
  $("run").setAttribute("aria-disabled", "true");
  $("answer").setAttribute("aria-busy", "true");
  $("status").textContent = "Running…";
  const headers = { "content-type": "application/json", ...($("cache").checked ? {} : { "x-use-cache": "false" }) };
  const began = performance.now();
  let response = null, answered = "", failed = null;
  try {
    response = await ask(home, { method: "POST", headers, body: JSON.stringify(body), signal: running.signal });
    answered = await response.text();
  } catch (error) { failed = error; }
  if (running.signal.aborted) return; // a newer one is on its way
  const took = performance.now() - began;
  $("run").removeAttribute("aria-disabled");
  $("answer").removeAttribute("aria-busy");
  let answer = answered;
  try { answer = JSON.parse(answered); } catch { /* a front door may answer in plain words */ }
  if (failed) showProblem({ status: 0, ...problemOf(`No answer: ${failed.message}.`) });
  else if (!response.ok) showProblem({ status: response.status, ...problemOf(answer) });
  else showAnswer(spec, answer, body, took);
  $("measured").replaceChildren(...(response ? [measured(response.headers, took)] : []));
};

const showAnswer = (spec, answer, body, took) => {
  let view;
  try { view = spec.show(answer, body, state.info.mask_token ?? "[MASK]"); } catch { view = showAny(answer, body); } // of another shape than its task's
  const raw = el("details", { class: "raw" }, el("summary", {}, "As JSON"));
  raw.ontoggle = () => { if (raw.open && raw.children.length === 1) raw.append(codeBlock(JSON.stringify(answer, null, 1), "answer as JSON")); };
  $("answer").replaceChildren(...view.nodes.filter(Boolean), ...(view.raw ? [] : [raw]));
  $("status").replaceChildren(el("span", { class: "unseen" }, `${view.summary}. `), `${milliseconds(took)} round trip`);
};

const showProblem = ({ status, text: words, type }) => {
  const named = [status || null, type].filter(Boolean).join(" ");
  $("status").textContent = "";
  $("answer").replaceChildren(el("div", { class: "problem", role: "alert" }, named ? el("strong", {}, named) : null, el("p", {}, words)));
  if (status === 401) wantToken(() => { $("auth").hidden = true; showCode(); run(); });
  if (status === 403) tell(SIGNED);
};

const milliseconds = (value) => `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ms`;
const STAGES = ["tokenize", "queue", "run", "post"];

/** What the answer took: stages as the server says, the round trip as this page measures it, and the rest between them. */
const measured = (headers, took) => {
  const timed = Object.fromEntries((headers.get("server-timing") ?? "").split(",").map((part) => [part.split(";")[0].trim(), Number(/dur=([\d.]+)/.exec(part)?.[1])]));
  const stages = STAGES.filter((stage) => timed[stage] >= 0).map((stage) => [stage, timed[stage], stage]);
  const rest = Math.max(0, took - stages.reduce((sum, [, ms]) => sum + ms, 0));
  const all = stages.length ? [...stages, ["network and browser", rest, "rest"]] : [];
  const told = {
    cache: headers.get("x-cache"), device: headers.get("x-compute-type"), tokens: headers.get("x-compute-tokens"), characters: headers.get("x-compute-characters"),
    "request id": headers.get("x-request-id"),
  };
  return el("div", { class: "measured" },
    all.length ? el("div", { class: "stack", "aria-hidden": "true" }, all.filter(([, ms]) => ms > 0).map(([, ms, key]) => el("i", { class: `s-${key}`, vars: { "--w": ms } }))) : null,
    el("ul", { class: "stages", "aria-label": "Time by stage" }, all.map(([name, ms, key]) => el("li", { class: `s-${key}` }, el("i"), `${name} `, el("b", {}, milliseconds(ms))))),
    el("ul", { class: "told" }, Object.entries(told).filter(([, value]) => value).map(([name, value]) => el("li", {}, `${name} `, el("b", {}, value)))));
};

const makeTabs = () => {
  const names = Object.keys(LANGUAGES);
  const tabs = names.map((name) => el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "code" }, name));
  const choose = (index) => {
    state.language = names[index];
    tabs.forEach((tab, i) => { tab.setAttribute("aria-selected", `${i === index}`); tab.tabIndex = i === index ? 0 : -1; });
    $("code").setAttribute("aria-labelledby", tabs[index].id);
    showCode();
  };
  tabs.forEach((tab, index) => {
    tab.onclick = () => choose(index);
    tab.onkeydown = (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index + tabs.length - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(to % tabs.length);
      tabs[to % tabs.length].focus();
    };
  });
  $("tabs").append(...tabs);
  choose(0);
};

/** The request that the form holds, as code. */
const showCode = () => {
  if (!state.spec) return;
  const body = read();
  if (!body) return;
  const written = LANGUAGES[state.language]({ url: home.href, task: state.task, body, cached: $("cache").checked });
  $("code").replaceChildren(codeBlock(written, `${state.language} code`));
};

start();
