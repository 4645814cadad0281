// One entry a task: the fields of its form, how they become `inputs`, its parameters, and its view.

const text = (name, label, rows, more) => ({ name, label, kind: "text", rows, ...more });
const lines = (name, label, rows, more) => ({ name, label, kind: "lines", hint: "one a line", rows, ...more });
const line = (name, label, more) => ({ name, label, kind: "line", ...more });

const whole = (min) => ({ kind: "number", min, step: 1 });
const real = { kind: "number", min: 0, step: "any" };
const pick = (...choices) => ({ kind: "pick", choices });
const flag = { kind: "flag" };
const word = (placeholder) => ({ kind: "word", placeholder });
const list = (placeholder) => ({ kind: "list", placeholder });

const PARAMETERS = {
  top_k: whole(1), top_n: whole(1), stride: whole(0), dimensions: whole(1), max_answer_len: whole(1), doc_stride: whole(0), max_new_tokens: whole(1),
  seed: whole(0), no_repeat_ngram_size: whole(0), temperature: real, top_p: real, repetition_penalty: real,
  function_to_apply: pick("softmax", "sigmoid", "none"), aggregation_strategy: pick("none", "simple", "first", "average", "max"), normalize: pick(true, false),
  multi_label: flag, truncate: flag, handle_impossible_answer: flag, do_sample: flag, return_full_text: flag,
  hypothesis_template: word("This example is {}."), prompt_name: word("query"), src_lang: word("en"), tgt_lang: word("de"),
  ignore_labels: list("O, MISC"), targets: list("piano, drum"), stop: list("\\n"),
};

const SENTENCES = ["A man is playing a guitar on stage.", "Someone performs music in front of people.", "An orchestra rehearses in the hall.", "The market fell on Monday."];
const GENERATE = ["max_new_tokens", "do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "seed", "stop"];
const generating = (label, rows, sample, extra = []) => ({
  fields: [text("text", label, rows)],
  sample: { text: sample },
  fill: (given) => ({ text: given }),
  inputs: (f) => f.text,
  parameters: [...GENERATE, ...extra, "truncate"],
  show: showText,
});
const labelling = {
  fields: [text("text", "Text", 4)],
  sample: { text: "A gripping, beautifully acted film." },
  fill: (given) => ({ text: given }),
  inputs: (f) => f.text,
  parameters: ["top_k", "function_to_apply", "truncate"],
  show: showLabels,
};

const TASKS = {
  "text-classification": labelling,
  "zero-shot-classification": {
    ...labelling,
    fields: [text("text", "Text", 4), lines("candidate_labels", "Labels", 3, { parameter: true })],
    sample: { text: "The orchestra played until midnight.", candidate_labels: ["music", "politics", "cooking"] },
    fill: (given) => (given.sequences ? { text: [given.sequences].flat()[0], candidate_labels: given.candidate_labels } : { text: given }),
    parameters: ["multi_label", "hypothesis_template", "truncate"],
  },
  "token-classification": {
    ...labelling,
    sample: { text: "My name is Maria Gonzalez and I live in Springfield." },
    parameters: ["aggregation_strategy", "ignore_labels", "stride", "truncate"],
    show: showEntities,
  },
  "question-answering": {
    fields: [line("question", "Question"), text("context", "Context", 6)],
    sample: { question: "Where does Maria live?", context: "Maria Gonzalez lives in Springfield and works in Paris." },
    fill: (given) => given,
    inputs: (f) => ({ question: f.question, context: f.context }),
    parameters: ["top_k", "max_answer_len", "doc_stride", "handle_impossible_answer"],
    start: { top_k: 3 },
    show: showSpan,
  },
  "feature-extraction": {
    fields: [lines("texts", "Texts", 5)],
    sample: { texts: SENTENCES },
    fill: (given) => ({ texts: [...new Set([given, ...SENTENCES].flat())] }),
    inputs: (f) => f.texts,
    parameters: ["normalize", "dimensions", "prompt_name", "truncate"],
    mode: "Every pair",
    show: showVectors,
  },
  "sentence-similarity": {
    fields: [line("source_sentence", "Sentence"), lines("sentences", "Compared with", 4)],
    sample: { source_sentence: SENTENCES[0], sentences: SENTENCES.slice(1) },
    fill: (given) => given,
    inputs: (f) => ({ source_sentence: f.source_sentence, sentences: f.sentences }),
    parameters: ["prompt_name", "truncate"],
    mode: "One with the others",
    show: showSimilarities,
  },
  "text-ranking": {
    fields: [line("query", "Query"), lines("texts", "Texts to rank", 5)],
    sample: { query: "Where do people make music?", texts: SENTENCES },
    fill: (given) => ({ query: given.query, texts: given.texts ?? given.documents }),
    inputs: (f) => ({ query: f.query, texts: f.texts }),
    parameters: ["top_n", "function_to_apply", "truncate"],
    choices: { function_to_apply: ["sigmoid", "none"] },
    show: showRanking,
  },
  "fill-mask": {
    ...labelling,
    fields: [text("text", "Text with a mask", 3, { mask: true })],
    sample: { text: "[MASK] is playing the guitar on stage." },
    parameters: ["top_k", "targets", "truncate"],
    show: showFilled,
  },
  "text-generation": generating("Prompt", 4, "Once upon a time", ["return_full_text"]),
  summarization: generating("Text", 7, "The tower is 324 metres tall, about the same height as an 81-storey building, and the tallest structure in Paris."),
  translation: generating("Text", 4, "My name is Sarah and I live in London.", ["src_lang", "tgt_lang"]),
};

/** A task of somebody's own: inputs as text or as JSON, as its sample is, and parameters as JSON. */
const anyTask = (sample) => {
  const plain = typeof sample === "string" || sample === undefined;
  const inputs = plain ? text("inputs", "Inputs", 5) : { name: "inputs", label: "Inputs", kind: "json", rows: 7, hint: "JSON" };
  return {
    fields: [inputs, { name: "parameters", label: "Parameters", kind: "json", rows: 2, hint: "JSON", all: true }],
    sample: { inputs: "", parameters: {} },
    fill: (given) => ({ inputs: given }),
    inputs: (f) => f.inputs,
    parameters: [],
    show: showAny,
  };
};
