// Answers as a person reads them. Each view gives { nodes, summary }: what to show, and the line that a screen reader hears.

const number = (value, digits = 4) => {
  const size = Math.abs(value);
  if (size === 0 || size >= 0.5 * 10 ** -digits) return value.toFixed(digits);
  return digits < 4 ? (0).toFixed(digits) : value.toExponential(1); // never -0.00
};
// more than this nobody reads, and a browser would be long about it; the JSON has all
const ROWS = 200, PAIRS = 24;
const more = (count, most, what) => (count > most ? `${(count - most).toLocaleString("en")} more ${what} under “As JSON”` : null);
const short = (text, most = 60) => { const all = [...text]; return all.length > most ? `${all.slice(0, most - 1).join("")}…` : text; };
const lead = (text, note) => el("p", { class: "lead" }, text, note ? el("small", {}, note) : null);
const sub = (text) => el("h3", { class: "sub" }, text);

/** Rows of { name, score, rest } with a bar each: of the whole where scores are shares, else from the least to the best. */
const bars = (rows, { ranked = false } = {}) => {
  const scores = rows.slice(0, ROWS).map((row) => row.score);
  const shares = scores.every((score) => score >= 0 && score <= 1);
  const [least, most] = shares ? [0, 1] : [Math.min(0, ...scores), Math.max(0, ...scores)];
  const best = Math.max(...scores);
  return el("ol", { class: "bars" }, rows.slice(0, ROWS).map((row, index) =>
    el("li", { class: row.score === best ? "best" : null },
      el("span", { class: "name" }, ranked ? el("span", { class: "rank" }, `${index + 1}`) : null, row.name),
      el("span", { class: "score", title: `${row.score}` }, number(row.score)),
      el("span", { class: "bar", "aria-hidden": "true" }, el("i", { vars: { "--w": `${100 * (row.score - least) / (most - least || 1)}%` } })),
      row.rest ? el("span", { class: "rest" }, row.rest) : null)), rows.length > ROWS ? el("li", { class: "rest" }, more(rows.length, ROWS, "rows")) : null);
};

const showLabels = (answer) => {
  const found = Array.isArray(answer[0]) ? answer[0] : Array.isArray(answer.labels) ? answer.labels.map((label, i) => ({ label, score: answer.scores[i] })) : answer;
  const [best] = found;
  return {
    nodes: [lead(best.label, number(best.score)), bars(found.map(({ label, score }) => ({ name: label, score })))],
    summary: `${best.label}, ${number(best.score)}`,
  };
};

/** Places are code points, as Python counts; a JavaScript text counts UTF-16 units. */
const pointsOf = (text) => { const points = [...text]; return (start, end) => points.slice(start, end).join(""); };

const showEntities = (answer, { inputs }) => {
  const found = Array.isArray(answer[0]) ? answer.flat() : answer;
  const cut = pointsOf(inputs);
  const labelOf = (entity) => entity.entity_group ?? entity.entity;
  const labels = [...new Set(found.map(labelOf))];
  const tone = (label) => `t${labels.indexOf(label) % 8}`;
  const reading = el("p", { class: "reading" });
  let at = 0;
  for (const entity of [...found].sort((a, b) => a.start - b.start)) {
    if (entity.start < at) continue; // one inside another stands in the table
    const label = labelOf(entity);
    reading.append(cut(at, entity.start), el("mark", { class: tone(label), title: number(entity.score) }, cut(entity.start, entity.end), el("small", {}, `\u00a0${label}`)));
    at = entity.end;
  }
  reading.append(cut(at));
  if (!found.length) return { nodes: [reading, el("p", { class: "legend" }, "No entities in this text.")], summary: "no entities" };
  const count = (label) => found.filter((entity) => labelOf(entity) === label).length;
  const legend = el("ul", { class: "legend", "aria-label": "Labels" }, labels.map((label) => el("li", { class: tone(label) }, el("i"), el("b", {}, label), `${count(label)}`)));
  const table = el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["Text", "Label"].map((t) => el("th", { scope: "col" }, t)), ["Score", "Place"].map((t) => el("th", { scope: "col", class: "num" }, t)))),
    el("tbody", {}, found.slice(0, ROWS).map((entity) => el("tr", {}, el("td", {}, cut(entity.start, entity.end)), el("td", {}, labelOf(entity)),
      el("td", { class: "num" }, number(entity.score)), el("td", { class: "num" }, `${entity.start}–${entity.end}`)))));
  return { nodes: [reading, legend, el("div", { class: "scroll" }, table), el("p", { class: "hint" }, more(found.length, ROWS, "entities"))], summary: `${found.length} ${found.length === 1 ? "entity" : "entities"}` };
};

const showSpan = (answer, { inputs }) => {
  const found = Array.isArray(answer) ? answer : [answer];
  const cut = pointsOf(inputs.context);
  const context = el("p", { class: "reading plain" });
  const point = ({ start, end }) => {
    context.replaceChildren(cut(0, start), end > start ? el("mark", {}, cut(start, end)) : "", cut(end));
  };
  const said = ({ answer: text }) => text || "no answer in this context";
  point(found[0]);
  const nodes = [lead(said(found[0]), number(found[0].score)), context];
  if (found.length > 1) {
    const buttons = found.map((one, index) => el("button", { type: "button", "aria-pressed": `${index === 0}` }, said(one)));
    buttons.forEach((button, index) => {
      button.onclick = () => {
        point(found[index]);
        buttons.forEach((other) => other.setAttribute("aria-pressed", `${other === button}`));
      };
    });
    nodes.push(sub("Best answers; choose one to see it in its context"), bars(found.map((one, index) => ({ name: buttons[index], score: one.score })), { ranked: true }));
  }
  return { nodes, summary: `${said(found[0])}, ${number(found[0].score)}` };
};

/** Of one text its vector; of a text that has one a token, their mean. */
const flat = (vector) => Array.isArray(vector[0]) ? vector[0].map((_, i) => vector.reduce((sum, row) => sum + row[i], 0) / vector.length) : vector;
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const cosine = (a, b) => dot(a, b) / (Math.sqrt(dot(a, a) * dot(b, b)) || 1);

/** A vector as a strip: numbers above zero in the accent's colour, those below in another, pale where they are small. */
const strip = (vector) => {
  const most = Math.max(...vector.map(Math.abs)) || 1;
  const step = Math.ceil(vector.length / 400);
  const shown = vector.filter((_, i) => i % step === 0);
  const stops = shown.map((x, i) => {
    const colour = `color-mix(in oklab, var(${x < 0 ? "--cold" : "--accent"}) ${Math.round(100 * Math.abs(x) / most)}%, var(--surface))`;
    return `${colour} ${(100 * i / shown.length).toFixed(2)}% ${(100 * (i + 1) / shown.length).toFixed(2)}%`;
  });
  return el("span", { class: "strip", "aria-hidden": "true", vars: { background: `linear-gradient(90deg, ${stops.join(", ")})` } });
};

const showVectors = (answer, { inputs: all }) => {
  const vectors = answer.slice(0, PAIRS).map(flat), inputs = all.slice(0, PAIRS);
  const rows = vectors.map((one) => vectors.map((other) => cosine(one, other)));
  const cell = (value) => el("td", { class: value < 0 ? "cold" : null, title: `${value}`, vars: { "--heat": `${Math.round(Math.abs(value) ** 1.5 * 46)}%` } }, number(value, 2));
  const table = el("table", { class: "heat" },
    el("caption", {}, all.length > PAIRS ? `Cosine of each pair of the first ${PAIRS} texts of ${all.length}` : "Cosine of each pair of texts"),
    el("thead", {}, el("tr", {}, el("td"), inputs.map((text, i) => el("th", { scope: "col", title: text }, `${i + 1}`)))),
    el("tbody", {}, rows.map((row, i) => el("tr", {}, el("th", { scope: "row", title: inputs[i] }, el("b", {}, `${i + 1}`), el("span", {}, short(inputs[i]))), row.map(cell)))));
  const strips = el("ol", { class: "strips" }, vectors.map((vector, i) => el("li", {}, `${i + 1}`, strip(vector))));
  const what = `${answer.length} ${answer.length === 1 ? "vector" : "vectors"} of ${vectors[0].length} numbers`;
  const means = Array.isArray(answer[0][0]) ? ", each the mean of its tokens' vectors" : "";
  return { nodes: [el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Similarities" }, table), sub(what + means), strips], summary: what };
};

const showSimilarities = (answer, { inputs }) => {
  const rows = answer.map((score, i) => ({ name: inputs.sentences[i], score })).sort((a, b) => b.score - a.score);
  return { nodes: [sub(`Closest to “${short(inputs.source_sentence)}”`), bars(rows, { ranked: true })], summary: `closest: ${rows[0].name}, ${number(rows[0].score)}` };
};

const showRanking = (answer, { inputs }) => {
  const rows = answer.map(({ index, score }) => ({ name: inputs.texts[index], score }));
  return { nodes: [sub(`Best for “${short(inputs.query)}”`), bars(rows, { ranked: true })], summary: `best: ${short(rows[0].name)}, ${number(rows[0].score)}` };
};

/** A sentence with its filled word set off: of several such words the one that stands where the mask stood. */
const filled = (sequence, word, near) => {
  const places = [];
  if (word) for (let at = sequence.indexOf(word); at >= 0; at = sequence.indexOf(word, at + 1)) places.push(at);
  if (!places.length) return [sequence];
  const at = places.reduce((best, place) => (Math.abs(place - near) < Math.abs(best - near) ? place : best));
  return [sequence.slice(0, at), el("b", {}, word), sequence.slice(at + word.length)];
};

const showFilled = (answer, { inputs }, mask) => {
  const rankings = Array.isArray(answer[0]) ? answer : [answer];
  let near = -1;
  const nodes = rankings.flatMap((ranking, i) => {
    near = inputs.indexOf(mask, near + 1);
    const rows = ranking.map((one) => ({ name: one.token_str.trim() || one.token_str, score: one.score, rest: filled(one.sequence, one.token_str.trim(), near) }));
    return [rankings.length > 1 ? sub(`Mask ${i + 1}`) : null, bars(rows)];
  });
  const best = rankings.map((ranking) => ranking[0].token_str.trim()).join(", ");
  return { nodes, summary: best };
};

const TEXTS = ["generated_text", "summary_text", "translation_text"];
const showText = (answer, { inputs, parameters }) => {
  const found = (Array.isArray(answer) ? answer : [answer]).map((one) => one[TEXTS.find((key) => key in one)]);
  const goesOn = TEXTS[0] in (answer[0] ?? answer) && !parameters?.return_full_text;
  const nodes = found.map((text, i) => el("p", { class: "reading plain" }, goesOn ? el("span", { class: "given" }, Array.isArray(inputs) ? inputs[i] : inputs) : null, text));
  return { nodes, summary: short(found[0], 120) };
};

/** Of an answer that nothing is known about: text where it plainly is that, else JSON. */
const showAny = (answer, request) => {
  if (typeof answer === "string") return { nodes: [el("p", { class: "reading plain" }, answer)], summary: short(answer, 120) };
  const items = Array.isArray(answer) ? answer : [answer];
  if (items.length && items.every((one) => one && typeof one === "object" && TEXTS.some((key) => typeof one[key] === "string"))) return showText(answer, request);
  return { nodes: [codeBlock(JSON.stringify(answer, null, 2), "answer")], summary: "an answer in JSON", raw: true };
};
