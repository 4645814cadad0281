// The reference: openapi.json, read and set out. Schemas are shown as deep as they go, a cycle once.

const home = homeOf(/\/docs\/*$|\/*$/);
const METHODS = ["get", "post", "put", "patch", "delete"];
let api = {};

const start = async () => {
  for (const id of ["home", "playground"]) $(id).href = home.pathname;
  $("source").href = new URL("openapi.json", home).pathname;
  let response = null;
  try {
    response = await ask(new URL("openapi.json", home));
    if (response.ok) api = await response.json();
  } catch { /* said below */ }
  $("auth").hidden = true;
  if (response?.status === 401) wantToken(start);
  else if (!response?.ok) {
    $("notice").hidden = false;
    $("notice").textContent = `GET ${$("source").getAttribute("href")} gives no answer${response ? ` but status ${response.status}` : ""}.`;
  } else show();
};

/** What a `$ref` stands for. */
const found = (thing) => {
  if (!thing?.$ref) return thing ?? {};
  const parts = thing.$ref.replace(/^#\//, "").split("/").map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
  return found(parts.reduce((inside, part) => inside?.[part], api));
};

const operations = () => Object.entries(api.paths ?? {}).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method]).map((method) => ({ path, method, shared: item.parameters ?? [], ...item[method] })));

const show = () => {
  const all = operations();
  const names = [...new Set([...(api.tags ?? []).map((tag) => tag.name), ...all.flatMap((op) => (op.tags?.length ? op.tags : ["Other"]).slice(0, 1))])];
  document.title = `${api.info?.title ?? "API"} · reference`;
  const reference = [el("h1", {}, api.info?.title ?? "API reference"), about(api.info?.description)], index = [];
  for (const name of names) {
    const own = all.filter((op) => (op.tags?.[0] ?? "Other") === name);
    if (!own.length) continue;
    reference.push(el("h2", { class: "tag" }, name), about(api.tags?.find((tag) => tag.name === name)?.description), own.map(operation));
    index.push(el("p", {}, name), own.map((op) => el("a", { href: `#${idOf(op)}` }, el("code", {}, `${op.method.toUpperCase()} ${op.path}`))));
  }
  // on a phone the list would stand before everything else
  $("index").replaceChildren(el("details", { open: matchMedia("(min-width: 60rem)").matches }, el("summary", {}, "Operations"), index));
  $("reference").replaceChildren(el("div", {}, reference));
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
};
/** Words in which `these` are code. */
const marked = (words) => words.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
const about = (words) => (words ? words.split(/\n\s*\n/).map((part) => el("p", { class: "about" }, marked(part))) : null);
const idOf = (op) => `${op.method}${op.path.replace(/[^\w]+/g, "-")}`;

const operation = (op) => {
  const parameters = [...op.shared, ...(op.parameters ?? [])].map(found);
  const body = found(op.requestBody);
  const content = contentOf(body);
  const example = exampleOf(content);
  return el("article", { class: "operation panel", id: idOf(op) },
    el("header", {}, el("span", { class: "method" }, op.method.toUpperCase()), el("h3", {}, op.path)),
    op.summary ? el("p", { class: "summary" }, op.summary) : null,
    about(op.description),
    parameters.length ? [el("h4", {}, "Parameters"), el("ul", { class: "rows" }, parameters.map((one) => row(`${one.name}`, one.schema, { must: one.required, words: one.description, where: one.in })))] : null,
    content?.schema ? [el("h4", {}, "Body"), schemaRows(content.schema) ?? el("p", { class: "about" }, typeOf(content.schema))] : null,
    el("h4", {}, "Request"), codeBlock(curlOf(op, parameters, example), `curl for ${op.path}`),
    el("h4", {}, "Answers"), answers(op));
};

/** What may come back. Errors have one shape, which is told once. */
const answers = (op) => {
  const all = Object.entries(op.responses ?? {}).map(([status, given]) => ({ status, ...found(given) }));
  const error = all.filter(({ status }) => !status.startsWith("2")).map(contentOf).find((content) => content?.schema);
  const rows = all.map((response) => {
    const fine = response.status.startsWith("2"), content = contentOf(response), example = exampleOf(content);
    return el("li", {}, el("span", { class: "key" }, response.status), " ", fine && content?.schema ? el("span", { class: "type" }, typeOf(content.schema)) : null,
      response.description ? el("span", { class: fine ? "words" : "type" }, marked(response.description)) : null,
      fine && content?.schema ? schemaRows(content.schema) : null,
      fine && example !== undefined ? codeBlock(JSON.stringify(example, null, 2), `example of ${response.status}`) : null);
  });
  return [el("ul", { class: "rows" }, rows), error ? el("details", {}, el("summary", {}, "What an error says"), schemaRows(error.schema)) : null];
};

const contentOf = ({ content }) => content?.["application/json"] ?? Object.values(content ?? {})[0];
const exampleOf = (content) => {
  if (!content) return undefined;
  const schema = found(content.schema);
  return content.example ?? found(Object.values(content.examples ?? {})[0]).value ?? schema.example ?? schema.examples?.[0];
};

const curlOf = (op, parameters, example) => {
  const path = op.path.replace(/^\//, "").replace(/\{(\w+)(?::\w+)?\}/g, (_, name) => {
    const given = parameters.find((one) => one.name === name);
    return encodeURI(`${given?.example ?? found(given?.schema).example ?? found(given?.schema).default ?? name.toUpperCase()}`);
  });
  return [
    `curl ${shell(new URL(path, home).href)}`,
    ...(["get", "post"].includes(op.method) ? [] : [`-X ${op.method.toUpperCase()}`]),
    ...(token.get() ? ['-H "authorization: Bearer $HOTFOOT_TOKEN"'] : []),
    ...(example === undefined ? [] : ["-H 'content-type: application/json'", `-d ${shell(JSON.stringify(example, null, 2))}`]),
  ].join(" \\\n  ");
};

/** A schema's type in words: `list of text`, `text or list of text`. */
const NAMES = { string: "text", integer: "whole number", number: "number", boolean: "true or false", null: "null", object: "object" };
const typeOf = (given, depth = 0) => {
  const schema = found(given);
  if (depth > 6) return "…";
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return [...new Set(several.map((one) => typeOf(one, depth + 1)))].join(" or ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return [...new Set(schema.enum)].map((value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return `list of ${schema.prefixItems ? schema.prefixItems.map((one) => typeOf(one, depth + 1)).join(", ") : typeOf(schema.items, depth + 1)}`;
  if (Array.isArray(schema.type)) return schema.type.map((one) => typeOf({ ...schema, type: one }, depth + 1)).join(" or ");
  return NAMES[schema.type] ?? (schema.properties || schema.allOf ? "object" : "anything");
};

const boundsOf = (schema) => [
  ["minimum", "at least"], ["exclusiveMinimum", "above"], ["maximum", "at most"], ["exclusiveMaximum", "below"], ["minItems", "items at least"], ["maxItems", "items at most"], ["default", "default"],
].filter(([name]) => schema[name] !== undefined && schema[name] !== null).map(([name, words]) => `${words} ${JSON.stringify(schema[name])}`);

const row = (name, given, { must = false, words = "", where = "", seen = [] } = {}) => {
  const schema = found(given);
  const told = words || schema.description;
  return el("li", {}, el("span", { class: "key" }, name), " ",
    el("span", { class: "type" }, [typeOf(given), where && `in ${where}`, ...boundsOf(schema)].filter(Boolean).join(", ")),
    must ? [" ", el("span", { class: "must" }, "required")] : null,
    told ? el("span", { class: "words" }, marked(told)) : null,
    schemaRows(given, seen));
};

/** The members of the objects that a schema leads to, through lists and choices; null where it leads to none. */
const schemaRows = (given, seen = []) => {
  const schema = found(given);
  if (seen.includes(schema) || seen.length > 8) return null;
  const deeper = [...seen, schema];
  if (schema.type === "array" && schema.items) return schemaRows(schema.items, deeper);
  const parts = schema.allOf ?? schema.anyOf ?? schema.oneOf;
  if (parts && !schema.properties) {
    const lists = parts.map((part) => schemaRows(part, deeper)).filter(Boolean);
    return lists.length ? el("div", {}, lists.map((one, i) => (i && !schema.allOf ? [el("p", { class: "or" }, "or"), one] : one))) : null;
  }
  const members = Object.entries(schema.properties ?? {});
  if (!members.length) return null;
  return el("ul", { class: "rows" }, members.map(([name, one]) => row(name, one, { must: schema.required?.includes(name), seen: deeper })));
};

start();
