// The request as code: for a shell, for Python, for JavaScript. JSON is JavaScript, and its strings are Python's too.

/** A value as a literal, in one line where it fits, else an item a line. words: of the language, for null, true and false. */
const literal = (value, step, indent, words, last) => {
  if (value === null || typeof value === "boolean") return words[`${value}`];
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = indent + step;
  const items = Array.isArray(value)
    ? value.map((one) => literal(one, step, inner, words, last))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one, step, inner, words, last)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const short = open + items.join(", ") + close;
  if (!items.length || (short.length + indent.length <= 44 && !short.includes("\n"))) return short;
  return `${open}\n${items.map((one) => inner + one).join(",\n")}${last}\n${indent}${close}`;
};
const python = (value, indent = "") => literal(value, "    ", indent, { null: "None", true: "True", false: "False" }, ",");
const json = (value, indent = "") => literal(value, "  ", indent, { null: "null", true: "true", false: "false" }, "");

// of each task the client's method, what stands first in it, and the parameters that it takes under their own names
const one = (inputs) => [[null, inputs]];
const CLIENT = {
  "text-classification": ["text_classification", one, ["top_k", "function_to_apply"]],
  "zero-shot-classification": ["zero_shot_classification", one, ["candidate_labels", "multi_label", "hypothesis_template"]],
  "token-classification": ["token_classification", one, ["aggregation_strategy", "ignore_labels", "stride"]],
  "question-answering": ["question_answering", Object.entries, ["top_k", "max_answer_len", "doc_stride", "handle_impossible_answer"]],
  "feature-extraction": ["feature_extraction", one, ["normalize", "dimensions", "prompt_name", "truncate"]],
  "sentence-similarity": ["sentence_similarity", (inputs) => [[null, inputs.source_sentence], ["other_sentences", inputs.sentences]], []],
  "fill-mask": ["fill_mask", one, ["top_k", "targets"]],
  "text-generation": ["text_generation", one, [...GENERATE, "return_full_text"]],
  summarization: ["summarization", one, [], GENERATE],
  translation: ["translation", one, ["src_lang", "tgt_lang"], GENERATE],
};

const pythonOf = ({ url, task, body, cached }) => {
  const [method, first, known, generate = []] = CLIENT[task] ?? [];
  const parameters = Object.entries(body.parameters ?? {});
  const paired = ("src_lang" in (body.parameters ?? {})) === ("tgt_lang" in (body.parameters ?? {})); // the client refuses one alone
  if (!method || !paired || parameters.some(([name]) => !known.includes(name) && !generate.includes(name))) return pythonPlain({ url, body, cached });
  const inner = Object.fromEntries(parameters.filter(([name]) => generate.includes(name)));
  const given = [...first(body.inputs), ...parameters.filter(([name]) => known.includes(name)), ...(Object.keys(inner).length ? [["generate_parameters", inner]] : [])];
  const call = given.map(([name, value]) => (name ? `${name}=` : "") + python(value, "    "));
  const made = [python(url), ...(token.get() ? ['token=os.environ["HOTFOOT_TOKEN"]'] : []), ...(cached ? [] : ['headers={"x-use-cache": "false"}'])];
  const short = call.join(", ");
  const written = short.includes("\n") || short.length > 60 ? `\n${call.map((part) => `    ${part},\n`).join("")}` : short;
  return `${token.get() ? "import os\n\n" : ""}from huggingface_hub import InferenceClient

client = InferenceClient(${made.join(", ")})
answer = client.${method}(${written})
print(answer)`;
};

/** Where the client has no method, or none that takes all of this. */
const pythonPlain = ({ url, body, cached }) => {
  const headers = ['"content-type": "application/json"', ...(token.get() ? ['"authorization": f"Bearer {os.environ[\'HOTFOOT_TOKEN\']}"'] : []), ...(cached ? [] : ['"x-use-cache": "false"'])];
  return `import json
${token.get() ? "import os\n" : ""}from urllib.request import Request, urlopen

body = ${python(body)}
headers = {${headers.join(", ")}}
with urlopen(Request(${python(url)}, json.dumps(body).encode(), headers)) as response:
    answer = json.load(response)
print(answer)`;
};

const curlOf = ({ url, body, cached }) => [
  `curl ${shell(url)}`,
  "-H 'content-type: application/json'",
  ...(token.get() ? ['-H "authorization: Bearer $HOTFOOT_TOKEN"'] : []),
  ...(cached ? [] : ["-H 'x-use-cache: false'"]),
  `-d ${shell(json(body))}`,
].join(" \\\n  ");

const javascriptOf = ({ url, body, cached }) => {
  const headers = ['"content-type": "application/json"', ...(token.get() ? ["authorization: `Bearer ${process.env.HOTFOOT_TOKEN}`"] : []), ...(cached ? [] : ['"x-use-cache": "false"'])];
  return `const response = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: { ${headers.join(", ")} },
  body: JSON.stringify(${json(body, "  ")}),
});
const answer = await response.json();
console.log(answer);`;
};

const LANGUAGES = { curl: curlOf, Python: pythonOf, JavaScript: javascriptOf };
